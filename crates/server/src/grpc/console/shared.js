var R,Io,qn,ge,$n,Ot,xo,wt,Ro,Wn,Bn,ma,Qe=Symbol.for("pv"),Pt={},At=[],da=/^m(i|n|o|s|text|space)$/,Hn=Array.isArray,Kn=At.slice,Se=Object.assign;function Ee(e){e&&e.parentNode&&e.remove()}function wo(e,t,n){var o,u,r,s={},a=arguments.length;for(r in t)r=="key"?o=t[r]:r=="ref"&&typeof e!="function"?u=t[r]:s[r]=t[r];return a>2&&(s.children=a>3?Kn.call(arguments,2):n),Ze(e,s,o,u,null)}function Ze(e,t,n,o,u){var r={type:e,props:t,key:n,ref:o,__k:null,__:null,__b:0,__e:null,__c:null,constructor:Qe,__v:u||++Io,__i:-1,__u:0};return!u&&R.vnode&&R.vnode(r),r}function ae(e){return e.children}function Ae(e,t){this.props=e,this.context=t,this.__g=0}function be(e,t){if(t==null)return e.__&&be(e.__,e.__i+1);for(var n;t<e.__k.length;t++)if((n=e.__k[t])&&n.__e)return n.__e;return typeof e.type!="function"||e.props.__P?null:be(e)}function ga(e){var t,n=e.__v,o=n.__e,u=[],r=[],s=e.__P;s&&((t=Se({constructor:Qe},n)).__v=n.__v+1,R.vnode&&R.vnode(t),Yn(s,t,n,e.__n,s.namespaceURI,32&n.__u?[o]:null,u,o||be(n),32&n.__u,r),t.__v=n.__v,t.__.__k[t.__i]=t,Do(u,t,r),n.__=n.__e=null,t.__e!=o&&Co(t))}function Co(e){if((e=e.__)&&e.__c&&!e.props.__P)return e.__e=null,e.__k.some(function(t){return t&&(e.__e=t.__e)}),Co(e)}function No(e){(8&e.__g||(e.__g|=8,ge.push(e),Ot++))&&$n==R.debounceRendering||(($n=R.debounceRendering)||queueMicrotask)(Oo)}function Oo(){try{for(var e,t=1;ge.length;)ge.length>t&&ge.sort(xo),e=ge.shift(),t=ge.length,8&e.__g&&ga(e)}finally{(Ot=ge.length)&&($n||queueMicrotask)(Oo)}}function Po(e,t,n,o,u,r,s,a,i,l,p){var d,g,c,m,h,b,_=o.__k||At,y=t.length;for(i=ba(n,t,_,i,y),d=0;d<y;d++)(c=n.__k[d])!=null&&(g=~c.__i&&_[c.__i]||Pt,c.__i=d,b=Yn(e,c,g,u,r,s,a,i,l,p),m=c.__e,(g.ref!=c.ref||8&g.__u)&&(g.ref&&jn(g.ref,null,c,g),c.ref&&p.push(c.ref,c.__c||m,c)),h=h||m,4&c.__u?(i=Ao(c,i,e,!g.__v),g.__e&&(g.__e=null)):typeof c.type=="function"&&b!==void 0?i=b:m&&(i=m.nextSibling),c.__u&=-21);return n.__e=h,i}function ba(e,t,n,o,u){var r,s,a,i,l,p,d,g,c,m=n.length,h=m,b=0,_=0,y=e.__k=Array(u);for(r=0;r<u;r++)(s=t[r])!=null&&typeof s!="boolean"&&typeof s!="function"?(typeof s!="object"||s.constructor===String?s=y[r]=Ze(null,s):Hn(s)?s=y[r]=Ze(ae,{children:s}):s.constructor===Qe&&s.__b?s=y[r]=Ze(s.type,s.props,s.key,s.ref,s.__v):y[r]=s,i=r+b,s.__=e,s.__b=e.__b+1,a=null,~(l=s.__i=ha(s,n,i,h))&&(h--,(a=n[l])&&(a.__u|=2)),a&&a.__v?(s.__u|=16,l==i-1?b--:l==i+1?b++:l!=i&&(l>i?b--:b++,_=1)):(~l||(u>m?b--:u<m&&b++),typeof s.type!="function"&&(s.__u|=4))):y[r]=null;if(_){for(p=[],d=[],r=0;r<u;r++)if((s=y[r])&&16&s.__u){for(b=0,g=p.length;b<g;)p[c=b+g>>1]<s.__i?b=c+1:g=c;p[b]=s.__i,d[r]=b+1}for(b=p.length;r--;)d[r]&&(d[r]==b?b--:y[r].__u|=4)}if(h)for(r=0;r<m;r++)!(a=n[r])||2&a.__u||(a.__e==o&&(o=be(a)),Jn(a,a));return o}function Ao(e,t,n,o){var u,r,s,a;if(typeof e.type=="function"){if(e.props.__P)return t;if(u=e.__k)for(r=0;r<u.length;r++)u[r]&&(u[r].__=e,t=Ao(u[r],t,n,!1));return t}for(t&&!t.parentNode&&(t=be(e))&&!t.parentNode&&(t=null),s=e.__e,a=t;a&&a.nodeType==8;)a=a.nextSibling;for(s!=a&&(!o&&n.moveBefore&&s.parentNode?n.moveBefore(s,t):n.insertBefore(s,t||null)),t=s;(t=t&&t.nextSibling)&&t.nodeType==8&&!t.data.startsWith("$s"););return t}function ha(e,t,n,o){var u,r=e.key,s=e.type,a=t[n],i=a&&!(2&a.__u);if(a===null&&r==null||i&&r==a.key&&s==a.type)return n;if(o>(i?1:0)){for(u=n-1;u>=0;u--)if((a=t[u])&&!(2&a.__u)&&r==a.key&&s==a.type)return u;for(u=n+1;u<t.length;u++)if((a=t[u])&&!(2&a.__u)&&r==a.key&&s==a.type)return u}return-1}function To(e,t,n){n==null&&(n=""),t[0]=="-"?e.setProperty(t,n):e[t]=n}function Rt(e,t,n,o,u){var r,s;if(t=="style")if(typeof n=="string")e.style.cssText=n;else{if(typeof o=="string"&&(e.style.cssText=o=""),o)for(t in o)n&&t in n||To(e.style,t);if(n)for(t in n)o&&n[t]==o[t]||To(e.style,t,n[t])}else if(t[0]=="o"&&t[1]=="n")typeof n!="function"&&(n=null),typeof o!="function"&&(o=null),(e.__e||(e.__e={}))[t]=n,n&&o||(s=Bn[t]||(Bn[t]=_a(t)),(e.__a||(e.__a={}))[t]=Wn,r=t!=(t=t.replace(Ro,"$1")),(t=t.slice(2))[0]<"a"&&(t=t.toLowerCase()),n?e.addEventListener(t,s,r):e.removeEventListener(t,s,r));else{if(u=="http://www.w3.org/2000/svg")t=t.replace(/xlink(H|:h)/,"h").replace(/sName$/,"s");else if(t!="width"&&t!="height"&&t!="href"&&t!="list"&&t!="form"&&t!="tabIndex"&&t!="download"&&t!="rowSpan"&&t!="colSpan"&&t!="role"&&t!="popover"&&t in e)try{return void(e[t]=n??"")}catch{}if(typeof n=="function")return;n==null||n===!1&&t[4]!="-"?e.removeAttribute(t):e.setAttribute(t,t=="popover"&&n==1?"":n)}}function _a(e){return function(t){var n=this.__e;if(n){if(n=n[e],t[wt]==null)t[wt]=Wn++;else if(t[wt]<this.__a[e])return;return n(R.event?R.event(t):t)}}}function Yn(e,t,n,o,u,r,s,a,i,l){var p,d,g,c,m,h,b,_,y,x,N,W,It,ve,ee,xt,te,ye,se=t.type;if(t.constructor!==Qe)return null;128&n.__u&&(i=32&n.__u,p=n.__c.__z)&&(t.__u|=i,d=r=[],p.nodeType==8?a=Ct(p,r):r.push(p),a=r[0]||a),(p=R.__b)&&p(t);e:if(typeof se=="function"){g=s.length;try{if(_=t.props,y=(p=se.prototype)&&p.render,x=(p=se.contextType)&&o[p.__c],N=p?x?x.props.value:p.__:o,(c=n.__c)?(t.__c=c,2&c.__g&&(c.__g|=1)):(y?t.__c=c=new se(_,N):(t.__c=c=new Ae(_,N),c.constructor=se,c.render=ya),x&&x.sub(c),c.state||(c.state={}),c.__n=o,c.__g|=8,c.__h=[],c.__k=[]),y&&(c.__s||(c.__s=c.state),se.getDerivedStateFromProps&&(c.__s==c.state&&(c.__s=Se({},c.__s)),Se(c.__s,se.getDerivedStateFromProps(_,c.__s)))),m=c.props,h=c.state,c.__v=t,n.__c){if(_!==m&&y&&!se.getDerivedStateFromProps&&c.componentWillReceiveProps&&c.componentWillReceiveProps(_,N),t.__v==n.__v&&!(8&c.__g)||!(4&c.__g)&&c.shouldComponentUpdate&&c.shouldComponentUpdate(_,c.__s,N)===!1){t.__v!=n.__v&&(c.props=_,c.state=c.__s,c.__g&=-9),t.__e=n.__e,t.__k=n.__k,t.__k.some(function(H){H&&(H.__=t)}),At.push.apply(c.__h,c.__k),c.__k=[],c.__h.length&&s.push(c),a=be(n);break e}c.componentWillUpdate&&c.componentWillUpdate(_,c.__s,N),y&&c.componentDidUpdate&&c.__h.push(function(){c.componentDidUpdate(m,h,b)})}else y&&!se.getDerivedStateFromProps&&c.componentWillMount&&c.componentWillMount(),y&&c.componentDidMount&&c.__h.push(c.componentDidMount);c.context=N,c.props=_,c.__P=e,c.__g&=-5,W=R.__r,It=y?25:0;do c.__g&=-9,W&&W(t),p=c.render(c.props,c.state=c.__s,c.context);while(8&c.__g&&++It<25);y&&(At.push.apply(c.__h,c.__k),c.__k=[]),c.state=c.__s,c.getChildContext&&(o=Se({},o,c.getChildContext())),y&&n.__c&&c.getSnapshotBeforeUpdate&&(b=c.getSnapshotBeforeUpdate(m,h)),ve=p&&p.type===ae&&p.key==null?p.props.children:p,_.__P&&(p=a,u=(e=_.__P).namespaceURI,i=r=null,n.props&&n.props.__P!=e&&(n.__k.some(function(H){H&&Jn(H,H)}),n.__k=null),a=n.__k?be(n,0):null),a=Po(e,Hn(ve)?ve:[ve],t,n,o,u,r,s,a,i,l),_.__P&&(t.__e=null,a=p),t.__u&=-161,d&&d.some(Ee),c.__h.length&&s.push(c),1&c.__g&&(c.__g&=-4)}catch(H){if(s.length=g,t.__v=null,i||r)if(H&&H.then){if(t.__u|=128|i,r){for(~(te=r.indexOf(a||void 0))||(te=r.length);(ye=r[te-1])&&ye.nodeType==8;)te--;for(;te<r.length;te++)if(ye=r[te])if(r[te]=null,ee){if(ye==xt)break}else{if(ye.nodeType!=8)break;ye.data.startsWith("$s")&&(xt=Ct(ee=ye))}}if(!ee){for(;a&&a.nodeType==8&&a.nextSibling;)a=a.nextSibling;ee=a}(p=Ct(ee=t.__c.__z||(t.__c.__z=ee)))?(t.__e=ee,a=p):t.__e=a,a=a&&a.nextSibling}else r&&r.some(Ee);else t.__e=n.__e;t.__k||(t.__k=n.__k||[]),H&&H.then||Lo(t),R.__e(H,t,n)}}else a=t.__e=va(n.__e,t,n,o,u,r,s,i,l,e);return(p=R.diffed)&&p(t),a}function Ct(e,t){if(e&&e.nodeType==8&&e.data.startsWith("$s"))for(var n=1;e=e.nextSibling;){if(e.nodeType==8){if(e.data.startsWith("$s"))n++;else if(e.data.startsWith("/$s")&&!--n)return e}t&&t.push(e)}}function Lo(e){e&&(e.__c&&(e.__c.__g|=4),e.__k&&e.__k.some(Lo))}function Do(e,t,n){for(var o=0;o<n.length;)jn(n[o++],n[o++],n[o++]);R.__c&&R.__c(t,e),e.some(function(u){try{e=u.__h,u.__h=[],e.some(function(r){r.call(u)})}catch(r){R.__e(r,u.__v)}})}function va(e,t,n,o,u,r,s,a,i,l){var p,d,g,c,m,h,b,_,y=n.props||Pt,x=t.props,N=t.type;if(N=="svg"?u="http://www.w3.org/2000/svg":N=="math"?u="http://www.w3.org/1998/Math/MathML":u||(u="http://www.w3.org/1999/xhtml"),r){for(p=0;p<r.length;p++)if((m=r[p])&&(N?m.localName==N:m.nodeType==3)){e=m,r[p]=null;break}}if(!e){if(_=l.ownerDocument||document,!N)return _.createTextNode(x);e=_.createElementNS(u,N,x.is?x:l),a&&(R.__m&&R.__m(t,r),a=!1),r=null}if(N){if(l=N=="template"&&e.content||e,r=N=="textarea"&&x.defaultValue!=null?null:r&&Kn.call(l.childNodes),!a&&r)for(y={},p=0;p<e.attributes.length;p++)y[(m=e.attributes[p]).name]=m.value;for(p in y)m=y[p],p=="dangerouslySetInnerHTML"?g=m:p=="children"||p in x||p=="value"&&"defaultValue"in x||p=="checked"&&"defaultChecked"in x||Rt(e,p,null,m,u);for(p in x)m=x[p],p=="children"?c=m:p=="dangerouslySetInnerHTML"?d=m:p=="value"?h=m:p=="checked"?b=m:a&&typeof m!="function"||y[p]===m||Rt(e,p,m,y[p],u);d?(a||g&&(d.__html==g.__html||d.__html==e.innerHTML)||(e.innerHTML=d.__html),t.__k=[]):(g&&(e.textContent=""),(N=="foreignObject"||u=="http://www.w3.org/1998/Math/MathML"&&da.test(N))&&(u="http://www.w3.org/1999/xhtml"),Po(l,Hn(c)?c:[c],t,n,o,u,r,s,r?r[0]:n.__k&&be(n,0),a,i),r&&r.some(Ee)),a&&N!="textarea"||(p="value",N=="progress"&&h==null?e.removeAttribute(p):h==null||h===e[p]&&(N!="progress"||h)||Rt(e,p,h,y[p],u),p="checked",b!=null&&b!=e[p]&&Rt(e,p,b,y[p],u))}else y===x||a&&e.data==x||(e.data=x);return e}function jn(e,t,n,o){try{typeof e=="function"?t?t.__x=e(t)||1:o&&(o=o.__c||o.__e)&&(t=o.__x)&&(o.__x=null,typeof t=="function"?t():e(null)):e.current=t}catch(u){R.__e(u,n)}}function Jn(e,t,n){var o,u,r,s;if(R.unmount&&R.unmount(e),!(o=e.ref)||o.current&&o.current!=e.__e||jn(o,null,t,e),o=e.__c){if(o.componentWillUnmount)try{o.componentWillUnmount()}catch(a){R.__e(a,t)}o.__P=o.__n=null}if(o=e.__k)for(s=0;s<o.length;s++)o[s]&&Jn(o[s],t,typeof e.type!="function"||n&&!e.props.__P);!n&&(o=e.__c)&&(o=o.__z)&&(u=Ct(o,r=[]))&&(o==e.__e&&r.some(Ee),Ee(u),Ee(o)),n||Ee(e.__e),e.__e=e.__c=e.__=null}function ya(e,t,n){return this.constructor(e,n)}function sp(e,t){var n,o,u,r;R.__&&R.__(e,t),t.nodeType==9&&(t=t.documentElement),o=(n=e&&32&e.__u)?null:t.__k,t.__k=Ze(ae,{children:[e]}),u=[],r=[],Yn(t,t.__k,o||Pt,Pt,t.namespaceURI,o?null:t.firstChild?Kn.call(t.childNodes):null,u,o?o.__e:t.firstChild,n,r),Do(u,t.__k,r),t.__k.props.children=null}R={__e:function(e,t,n,o){for(var u,r,s;t=t.__;)if((u=t.__c)&&!(1&u.__g)){u.__g|=4;try{if((s=(r=u.constructor)&&r.getDerivedStateFromError)&&u.setState(r.getDerivedStateFromError(e)),u.componentDidCatch&&(u.componentDidCatch(e,o||{}),s=1),s&&8&u.__g)return void(u.__g|=2)}catch(a){e=a}}throw Ot=0,e}},Io=0,qn=function(e){return e!=null&&e.constructor===Qe},Ae.prototype.setState=function(e,t){var n=this.__s;n&&n!=this.state||(n=this.__s=Se({},this.state)),typeof e=="function"&&(e=e(Se({},n),this.props)),e&&(Se(n,e),this.__v&&(t&&this.__k.push(t),No(this)))},Ae.prototype.forceUpdate=function(e){this.__v&&(this.__g|=4,e&&this.__h.push(e),No(this))},Ae.prototype.render=ae,ge=[],Ot=0,xo=function(e,t){return e.__v.__b-t.__v.__b},wt=Symbol(),Ro=/(PointerCapture)$|Capture$/i,Wn=0,Bn={},ma=0;var Le,M,Xn,Mo,zn=Object.is,Lt=0,Wo=[],Zn=[],L=R,ko=L.__b,Go=L.__r,Uo=L.diffed,Fo=L.__c,Vo=L.unmount,$o=L.__;function Dt(e,t){L.__h&&L.__h(M,e,Lt||t),Lt=0;var n=M.__H||(M.__H={__:[],__h:[]});return e>=n.__.length&&n.__.push({}),n.__[e]}function Ho(e){return Lt=1,Ea(Ko,e)}function Ea(e,t,n){var o=Dt(Le++,2);if(o.t=e,!o.__c&&(o.__=[n?n(t):Ko(void 0,t),function(r){var s=(o.__N||o.__)[0],a=o.t(s,r);zn(s,a)||(o.__N=[a,o.__[1]],o.__c.setState({}))}],o.__c=M,!M.__f)){M.__f=!0;var u=M.shouldComponentUpdate;M.shouldComponentUpdate=function(r,s,a){var i=this.__H;if(!i)return!0;var l=!1,p=this.props!=r;if(i.__.some(function(g){g.__N&&(l=!0,zn(g.__[0],g.__N[0])||(p=!0))}),u){var d=u.call(this,r,s,a);return l?d||p:d}return!l||p}}return o.__}function Sa(e,t){var n=Dt(Le++,3);!L.__s&&e0(n.__H,t)&&(n.__P=!0,n.__=e,n.u=t,M.__H.__h.push(n))}function lp(e,t){var n=Dt(Le++,4);!L.__s&&e0(n.__H,t)&&(n.__P=!1,n.__=e,n.u=t,M.__h.push(n))}function Na(e){return Lt=5,Mt(function(){return{current:e}},[])}function Mt(e,t){var n=Dt(Le++,7);return e0(n.__H,t)&&(n.__=e(),n.__H=t),n.__}function Ta(){var e;do{for(;e=Zn.shift();)try{et(e)}catch(n){L.__e(n,{__:(e=e.__P)&&e.__v})}for(;e=Wo.shift();){var t=e.__H;if(e.__P&&t)try{t.__h.some(et),t.__h.some(Qn),t.__h=[]}catch(n){t.__h=[],L.__e(n,e.__v)}}}while(Zn.length)}L.__b=function(e){M=null,ko&&ko(e)},L.__=function(e,t){e&&t.__k&&t.__k.__m&&(e.__m=t.__k.__m),$o&&$o(e,t)},L.__r=function(e){Go&&Go(e),Le=0;var t=(M=e.__c).__H;t&&(Xn==M?M.__h=[]:(t.__h.some(et),t.__h.some(Qn),Le=0),t.__h=[],t.__.some(function(n){n.__N&&(n.__=n.__N),n.u=n.__N=void 0})),Xn=M},L.diffed=function(e){Uo&&Uo(e);var t=e.__c;t&&t.__H&&(t.__H.__h.length&&qo(Wo.push(t)),t.__H.__.some(function(n){n.u&&(n.__H=n.u)})),Xn=M=null},L.__c=function(e,t){t.some(function(n){try{n.__h.some(et),n.__h=n.__h.filter(function(o){return!o.__||Qn(o)})}catch(o){n.__h=[function(){throw o}]}}),Fo&&Fo(e,t)},L.unmount=function(e){Vo&&Vo(e);var t,n,o=e.__c;o&&o.__H&&(o.__H.__.some(function(u){try{if(u.__P&&u.__c){if(n===void 0){for(n=e.__;n&&(!n.__c||!n.__c.__P);)n=n.__;n=n&&n.__c}u.__P=n,qo(Zn.push(u))}else et(u)}catch(r){t=r}}),o.__H=void 0,t&&L.__e(t,o.__v))};var Bo=typeof requestAnimationFrame=="function";function Ia(e){var t,n=function(){clearTimeout(o),Bo&&cancelAnimationFrame(t),setTimeout(e)},o=setTimeout(n,35);Bo&&(t=requestAnimationFrame(n))}function qo(e){e!=1&&Mo==L.requestAnimationFrame||((Mo=L.requestAnimationFrame)||Ia)(Ta)}function et(e){var t=M,n=e.__c;typeof n=="function"&&(e.__c=void 0,n()),M=t}function Qn(e){var t=M;e.__c=e.__(),M=t}function e0(e,t){return!e||e.length!=t.length||t.some(function(n,o){return!zn(n,e[o])})}function Ko(e,t){return typeof t=="function"?t(e):t}var xa=Symbol.for("preact-signals");function Ft(){if(ie>1)ie--;else{var e,t=!1;for((function(){var u=Gt;for(Gt=void 0;u!==void 0;){var r=u.S;if(r.v===u.v)for(var s=r.t;s!==void 0;s=s.x)s.i===u.i&&(s.i=r.i);u=u.o}})();nt!==void 0;){var n=nt;for(nt=void 0,kt++;n!==void 0;){var o=n.u;if(n.u=void 0,n.f&=-3,!(8&n.f)&&jo(n))try{n.c()}catch(u){t||(e=u,t=!0)}n=o}}if(kt=0,ie--,t)throw e}}function n0(e){if(ie>0)return e();t0=++Ra,ie++;try{return e()}finally{Ft()}}var tt,P=void 0;function ot(e){var t=P,n=tt;P=void 0,tt=void 0;try{return e()}finally{P=t,tt=n}}var nt=void 0,ie=0,kt=0,Ra=0,t0=0,Gt=void 0,Ut=0;function Yo(e){if(P!==void 0){var t=e.n;if(t===void 0||t.t!==P)return t={i:0,S:e,p:P.s,n:void 0,t:P,e:void 0,x:void 0,r:t},P.s!==void 0&&(P.s.n=t),P.s=t,e.n=t,32&P.f&&e.S(t),t;if(t.i===-1)return t.i=0,t.n!==void 0&&(t.n.p=t.p,t.p!==void 0&&(t.p.n=t.n),t.p=P.s,t.n=void 0,P.s.n=t,P.s=t),t}}function k(e,t){this.v=e,this.i=0,this.n=void 0,this.t=void 0,this.l=0,this.W=t?.watched,this.Z=t?.unwatched,this.name=t?.name}k.prototype.brand=xa;k.prototype.h=function(){return!0};k.prototype.S=function(e){var t=this,n=this.t;n!==e&&e.e===void 0&&(e.x=n,this.t=e,n!==void 0?n.e=e:ot(function(){var o;(o=t.W)==null||o.call(t)}))};k.prototype.U=function(e){var t=this;if(this.t!==void 0){var n=e.e,o=e.x;n!==void 0&&(n.x=o,e.e=void 0),o!==void 0&&(o.e=n,e.x=void 0),e===this.t&&(this.t=o,o===void 0&&ot(function(){var u;(u=t.Z)==null||u.call(t)}))}};k.prototype.subscribe=function(e){var t=this;return ne(function(){var n=t.value;ot(function(){return e(n)})},{name:"sub"})};k.prototype.valueOf=function(){return this.value};k.prototype.toString=function(){return this.value+""};k.prototype.toJSON=function(){return this.value};k.prototype.peek=function(){var e=this;return ot(function(){return e.value})};Object.defineProperty(k.prototype,"value",{get:function(){var e=Yo(this);return e!==void 0&&(e.i=this.i),this.v},set:function(e){if(e!==this.v){if(kt>100)throw new Error("Cycle detected");(function(n){ie!==0&&kt===0&&n.l!==t0&&(n.l=t0,Gt={S:n,v:n.v,i:n.i,o:Gt})})(this),this.v=e,this.i++,Ut++,ie++;try{for(var t=this.t;t!==void 0;t=t.x)t.t.N()}finally{Ft()}}}});function E(e,t){return new k(e,t)}function jo(e){for(var t=e.s;t!==void 0;t=t.n)if(t.S.i!==t.i||!t.S.h()||t.S.i!==t.i)return!0;return!1}function Jo(e){for(var t=e.s;t!==void 0;t=t.n){var n=t.S.n;if(n!==void 0&&(t.r=n),t.S.n=t,t.i=-1,t.n===void 0){e.s=t;break}}}function Xo(e){for(var t=e.s,n=void 0;t!==void 0;){var o=t.p;t.i===-1?(t.S.U(t),o!==void 0&&(o.n=t.n),t.n!==void 0&&(t.n.p=o)):n=t,t.S.n=t.r,t.r!==void 0&&(t.r=void 0),t=o}e.s=n}function Ne(e,t){k.call(this,void 0,t),this.x=e,this.s=void 0,this.g=Ut-1,this.f=4}Ne.prototype=new k;Ne.prototype.h=function(){if(this.f&=-3,1&this.f)return!1;if((36&this.f)==32||(this.f&=-5,this.g===Ut))return!0;if(this.g=Ut,this.f|=1,this.i>0&&!jo(this))return this.f&=-2,!0;var e=P;try{Jo(this),P=this;var t=this.x();(16&this.f||this.v!==t||this.i===0)&&(this.v=t,this.f&=-17,this.i++)}catch(n){this.v=n,this.f|=16,this.i++}return P=e,Xo(this),this.f&=-2,!0};Ne.prototype.S=function(e){if(this.t===void 0){this.f|=36;for(var t=this.s;t!==void 0;t=t.n)t.S.S(t)}k.prototype.S.call(this,e)};Ne.prototype.U=function(e){if(this.t!==void 0&&(k.prototype.U.call(this,e),this.t===void 0)){this.f&=-33;for(var t=this.s;t!==void 0;t=t.n)t.S.U(t)}};Ne.prototype.N=function(){if(!(2&this.f)){this.f|=6;for(var e=this.t;e!==void 0;e=e.x)e.t.N()}};Object.defineProperty(Ne.prototype,"value",{get:function(){if(1&this.f)throw new Error("Cycle detected");var e=Yo(this);if(this.h(),e!==void 0&&(e.i=this.i),16&this.f)throw this.v;return this.v}});function $(e,t){return new Ne(e,t)}function zo(e){var t=e.j;if(e.j=void 0,typeof t=="function"){ie++;var n=P;P=void 0;try{t()}catch(o){throw e.f&=-2,e.f|=8,o0(e),o}finally{P=n,Ft()}}}function o0(e){for(var t=e.s;t!==void 0;t=t.n)t.S.U(t);e.x=void 0,e.s=void 0,zo(e)}function wa(e){if(P!==this)throw new Error("Out-of-order effect");Xo(this),P=e,this.f&=-2;try{8&this.f&&o0(this)}finally{Ft()}}function De(e,t){this.x=e,this.j=void 0,this.s=void 0,this.u=void 0,this.f=32,this.name=t?.name,tt&&tt.push(this)}De.prototype.c=function(){var e=this.S();try{if(8&this.f||this.x===void 0)return;var t=this.x();typeof t=="function"&&(this.j=t)}finally{e()}};De.prototype.S=function(){if(1&this.f)throw new Error("Cycle detected");this.f|=1,this.f&=-9,zo(this),Jo(this),ie++;var e=P;return P=this,wa.bind(this,e)};De.prototype.N=function(){2&this.f||(this.f|=2,this.u=nt,nt=this)};De.prototype.d=function(){this.f|=8,1&this.f||o0(this)};De.prototype.dispose=function(){this.d()};function ne(e,t){var n=new De(e,t);try{n.c()}catch(u){throw n.d(),u}var o=n.d.bind(n);return o[Symbol.dispose]=o,o}var Zo,$t,Vt,Ca=typeof window<"u"&&!!window.__PREACT_SIGNALS_DEVTOOLS__;var Qo=[];ne(function(){Zo=this.N})();function Me(e,t){R[e]=t.bind(null,R[e]||function(){})}function ut(e){if(Vt){var t=Vt;Vt=void 0,t()}Vt=e&&e.S()}function eu(e){var t=this,n=e.data,o=Pa(n);o.name="ReactiveDom",o.value=n;var u=Mt(function(){for(var a=t,i=t.__v;i=i.__;)if(i.__c){i.__c.__$f|=4;break}var l=$(function(){var c=o.value.value;return c===0?0:c===!0?"":c||""}),p=$(function(){return!Array.isArray(l.value)&&!qn(l.value)}),d=ne(function(){if(this.N=tu,p.value){var c=l.value;a.__v&&a.__v.__e&&a.__v.__e.nodeType===3&&(a.__v.__e.data=c)}}),g=t.__$u.d;return t.__$u.d=function(){d(),g.call(this)},[p,l]},[]),r=u[0],s=u[1];return r.value?s.peek():s.value}eu.displayName="ReactiveTextNode";Object.defineProperties(k.prototype,{constructor:{configurable:!0,value:wo(ae,null).constructor},type:{configurable:!0,value:eu},props:{configurable:!0,get:function(){var e=this;return{data:{get value(){return e.value}}}}},__b:{configurable:!0,value:1}});Me("__b",function(e,t){if(ut(),$t=void 0,typeof t.type=="string"){var n,o=t.props;for(var u in o)if(u!=="children"){var r=o[u];r instanceof k&&(n||(t.__np=n={}),n[u]=r,o[u]=r.peek())}}e(t)});Me("__r",function(e,t){if(e(t),t.type!==ae){ut();var n,o=t.__c;o&&(o.__$f&=-2,(n=o.__$u)===void 0&&(o.__$u=n=(function(u,r){var s;return ne(function(){s=this},{name:r}),s.c=u,s})((function(u){return function(){var r;Ca&&((r=this.y)==null||r.call(this)),u.__$f|=1,u.setState({})}})(o),typeof t.type=="function"?t.type.displayName||t.type.name:""))),$t=o,ut(n)}});Me("__e",function(e,t,n,o){ut(),$t=void 0,e(t,n,o)});Me("diffed",function(e,t){ut(),$t=void 0;var n;if(typeof t.type=="string"&&(n=t.__e)){var o=t.__np,u=t.props,r=n.U;if(r)for(var s in r){var a=r[s];a===void 0||o&&s in o||(a.d(),r[s]=void 0)}if(o){r||(r={},n.U=r);for(var i in o){var l=r[i],p=o[i];l===void 0?(l=Oa(n,i,p,u),r[i]=l):l.o(p,u)}}}e(t)});function Oa(e,t,n,o){var u=t in e&&e.ownerSVGElement===void 0,r=E(n);return{o:function(s,a){r.value=s,o=a},d:ne(function(){this.N=tu;var s=r.value.value;o[t]!==s&&(o[t]=s,u?e[t]=s:s!=null&&(s!==!1||t[4]==="-")?e.setAttribute(t,s):e.removeAttribute(t))})}}Me("unmount",function(e,t){if(typeof t.type=="string"){var n=t.__e;if(n){var o=n.U;if(o){n.U=void 0;for(var u in o){var r=o[u];r&&r.d()}}}var s=t.__np;if(s){var a=t.props;for(var i in s)a[i]=s[i]}t.__np=void 0}else{var l=t.__c;if(l){l.__$f|=8;var p=l.__$u;p&&(l.__$u=void 0,p.d())}}e(t)});Me("__h",function(e,t,n,o){o<3&&(t.__$f|=2),e(t,n,o)});Ae.prototype.shouldComponentUpdate=function(e,t){if(this.__R)return!0;var n=this.__$u,o=n&&n.s!==void 0;for(var u in t)return!0;if(this.__f||typeof this.u=="boolean"&&this.u===!0){var r=2&this.__$f;if(!(o||r||4&this.__$f)||1&this.__$f)return!0}else if(!(o||4&this.__$f)||3&this.__$f)return!0;for(var s in e)if(s!=="__source"&&e[s]!==this.props[s])return!0;for(var a in this.props)if(!(a in e))return!0;return!1};function Pa(e,t){return Mt(function(){return E(e,t)},[])}var Aa=function(e){queueMicrotask(function(){queueMicrotask(e)})};function La(){n0(function(){for(var e;e=Qo.shift();)Zo.call(e)})}function tu(){Qo.push(this)===1&&(R.requestAnimationFrame||Aa)(La)}var v;(function(e){e[e.Canceled=1]="Canceled",e[e.Unknown=2]="Unknown",e[e.InvalidArgument=3]="InvalidArgument",e[e.DeadlineExceeded=4]="DeadlineExceeded",e[e.NotFound=5]="NotFound",e[e.AlreadyExists=6]="AlreadyExists",e[e.PermissionDenied=7]="PermissionDenied",e[e.ResourceExhausted=8]="ResourceExhausted",e[e.FailedPrecondition=9]="FailedPrecondition",e[e.Aborted=10]="Aborted",e[e.OutOfRange=11]="OutOfRange",e[e.Unimplemented=12]="Unimplemented",e[e.Internal=13]="Internal",e[e.Unavailable=14]="Unavailable",e[e.DataLoss=15]="DataLoss",e[e.Unauthenticated=16]="Unauthenticated"})(v||(v={}));function rt(e,t){return e!==null&&typeof e=="object"&&"$typeName"in e&&typeof e.$typeName=="string"?t===void 0?!0:t.typeName===e.$typeName:!1}var f;(function(e){e[e.DOUBLE=1]="DOUBLE",e[e.FLOAT=2]="FLOAT",e[e.INT64=3]="INT64",e[e.UINT64=4]="UINT64",e[e.INT32=5]="INT32",e[e.FIXED64=6]="FIXED64",e[e.FIXED32=7]="FIXED32",e[e.BOOL=8]="BOOL",e[e.STRING=9]="STRING",e[e.BYTES=12]="BYTES",e[e.UINT32=13]="UINT32",e[e.SFIXED32=15]="SFIXED32",e[e.SFIXED64=16]="SFIXED64",e[e.SINT32=17]="SINT32",e[e.SINT64=18]="SINT64"})(f||(f={}));function ou(){let e=this.buf,t=this.pos,n=0,o=0;for(let r=0;r<28;r+=7){let s=e[t++];if(n|=(s&127)<<r,(s&128)==0){this.pos=t,this.assertBounds(),this.varint64Lo=n,this.varint64Hi=o;return}}let u=e[t++];if(n|=(u&15)<<28,o=(u&112)>>4,(u&128)==0){this.pos=t,this.assertBounds(),this.varint64Lo=n,this.varint64Hi=o;return}for(let r=3;r<=31;r+=7){let s=e[t++];if(o|=(s&127)<<r,(s&128)==0){this.pos=t,this.assertBounds(),this.varint64Lo=n,this.varint64Hi=o;return}}throw new Error("invalid varint")}var Bt=4294967296;function u0(e){let t=e[0]==="-";t&&(e=e.slice(1));let n=1e6,o=0,u=0;function r(s,a){let i=Number(e.slice(s,a));u*=n,o=o*n+i,o>=Bt&&(u=u+(o/Bt|0),o=o%Bt)}return r(-24,-18),r(-18,-12),r(-12,-6),r(-6),t?ru(o,u):s0(o,u)}function uu(e,t){let n=s0(e,t),o=n.hi&2147483648;o&&(n=ru(n.lo,n.hi));let u=r0(n.lo,n.hi);return o?"-"+u:u}function r0(e,t){if({lo:e,hi:t}=Da(e,t),t<=2097151)return String(Bt*t+e);let n=e&16777215,o=(e>>>24|t<<8)&16777215,u=t>>16&65535,r=n+o*6777216+u*6710656,s=o+u*8147497,a=u*2,i=1e7;return r>=i&&(s+=Math.floor(r/i),r%=i),s>=i&&(a+=Math.floor(s/i),s%=i),a.toString()+nu(s)+nu(r)}function Da(e,t){return{lo:e>>>0,hi:t>>>0}}function s0(e,t){return{lo:e|0,hi:t|0}}function ru(e,t){return t=~t,e?e=~e+1:t+=1,s0(e,t)}var nu=e=>{let t=String(e);return"0000000".slice(t.length)+t};function su(e,t){if(e>>>0<128){t.push(e);return}if(e>=0){for(;e>127;)t.push(e&127|128),e=e>>>7;t.push(e)}else{for(let n=0;n<9;n++)t.push(e&127|128),e=e>>7;t.push(1)}}function au(){let e=this.buf[this.pos++];if((e&128)===0)return this.assertBounds(),e;let t=e&127;if(e=this.buf[this.pos++],t|=(e&127)<<7,(e&128)===0)return this.assertBounds(),t;if(e=this.buf[this.pos++],t|=(e&127)<<14,(e&128)===0)return this.assertBounds(),t;if(e=this.buf[this.pos++],t|=(e&127)<<21,(e&128)===0)return this.assertBounds(),t;e=this.buf[this.pos++],t|=(e&15)<<28;for(let n=5;(e&128)!==0&&n<10;n++)e=this.buf[this.pos++];if((e&128)!==0)throw new Error("invalid varint");return this.assertBounds(),t>>>0}var T=Ma();function Ma(){let e=new DataView(new ArrayBuffer(8));if(typeof BigInt=="function"&&typeof e.getBigInt64=="function"&&typeof e.getBigUint64=="function"&&typeof e.setBigInt64=="function"&&typeof e.setBigUint64=="function"&&(!!globalThis.Deno||!!globalThis.Bun||typeof process!="object"||typeof process.env!="object"||process.env.BUF_BIGINT_DISABLE!=="1")){let n=BigInt("-9223372036854775808"),o=BigInt("9223372036854775807"),u=BigInt("0"),r=BigInt("18446744073709551615");return{zero:BigInt(0),supported:!0,parse(s){let a=typeof s=="bigint"?s:BigInt(s);if(a>o||a<n)throw new Error(`invalid int64: ${s}`);return a},uParse(s){let a=typeof s=="bigint"?s:BigInt(s);if(a>r||a<u)throw new Error(`invalid uint64: ${s}`);return a},enc(s){return e.setBigInt64(0,this.parse(s),!0),{lo:e.getInt32(0,!0),hi:e.getInt32(4,!0)}},uEnc(s){return e.setBigInt64(0,this.uParse(s),!0),{lo:e.getInt32(0,!0),hi:e.getInt32(4,!0)}},dec(s,a){return e.setInt32(0,s,!0),e.setInt32(4,a,!0),e.getBigInt64(0,!0)},uDec(s,a){return e.setInt32(0,s,!0),e.setInt32(4,a,!0),e.getBigUint64(0,!0)}}}return{zero:"0",supported:!1,parse(n){return typeof n!="string"&&(n=n.toString()),iu(n),n},uParse(n){return typeof n!="string"&&(n=n.toString()),lu(n),n},enc(n){return typeof n!="string"&&(n=n.toString()),iu(n),u0(n)},uEnc(n){return typeof n!="string"&&(n=n.toString()),lu(n),u0(n)},dec(n,o){return uu(n,o)},uDec(n,o){return r0(n,o)}}}function iu(e){if(!/^-?[0-9]+$/.test(e))throw new Error("invalid int64: "+e)}function lu(e){if(!/^[0-9]+$/.test(e))throw new Error("invalid uint64: "+e)}function F(e,t){switch(e){case f.STRING:return"";case f.BOOL:return!1;case f.DOUBLE:case f.FLOAT:return 0;case f.INT64:case f.UINT64:case f.SFIXED64:case f.FIXED64:case f.SINT64:return t?"0":T.zero;case f.BYTES:return new Uint8Array(0);default:return 0}}function cu(e,t){switch(e){case f.BOOL:return t===!1;case f.STRING:return t==="";case f.BYTES:return t instanceof Uint8Array&&!t.byteLength;case f.DOUBLE:case f.FLOAT:return Object.is(t,0);default:return t==0}}var pu=2,G=Symbol.for("reflect unsafe local");function fu(e,t){let n=e[t.localName].case;return n===void 0?n:t.fields.find(o=>o.localName===n)}function mu(e,t){let n=t.localName;if(t.oneof)return e[t.oneof.localName].case===n;if(t.presence!=pu)return e[n]!==void 0&&Object.prototype.hasOwnProperty.call(e,n);switch(t.fieldKind){case"list":return e[n].length>0;case"map":return Object.keys(e[n]).length>0;case"scalar":return!cu(t.scalar,e[n]);case"enum":return e[n]!==t.enum.values[0].number}throw new Error("message field with implicit presence")}function Te(e,t){return Object.prototype.hasOwnProperty.call(e,t)&&e[t]!==void 0}function du(e,t){if(t.oneof){let n=e[t.oneof.localName];return n.case===t.localName?n.value:void 0}return e[t.localName]}function gu(e,t,n){t.oneof?e[t.oneof.localName]={case:t.localName,value:n}:e[t.localName]=n}function U(e,t,n){t==="__proto__"?Object.defineProperty(e,"__proto__",{value:n,writable:!0,enumerable:!0,configurable:!0}):e[t]=n}function bu(e,t){return Object.prototype.hasOwnProperty.call(e,t)?e[t]:void 0}function hu(e,t){let n=t.localName;if(t.oneof){let o=t.oneof.localName;e[o].case===n&&(e[o]={case:void 0})}else if(t.presence!=pu)delete e[n];else switch(t.fieldKind){case"map":e[n]={};break;case"list":e[n]=[];break;case"enum":e[n]=t.enum.values[0].number;break;case"scalar":e[n]=F(t.scalar,t.longAsString);break}}function Y(e){return e!==null&&typeof e=="object"&&!Array.isArray(e)}function st(e,t){var n,o,u,r;if(Y(e)&&G in e&&"add"in e&&"field"in e&&typeof e.field=="function"){if(t!==void 0){let s=t,a=e.field();return s.listKind==a.listKind&&s.scalar===a.scalar&&((n=s.message)===null||n===void 0?void 0:n.typeName)===((o=a.message)===null||o===void 0?void 0:o.typeName)&&((u=s.enum)===null||u===void 0?void 0:u.typeName)===((r=a.enum)===null||r===void 0?void 0:r.typeName)}return!0}return!1}function at(e,t){var n,o,u,r;if(Y(e)&&G in e&&"has"in e&&"field"in e&&typeof e.field=="function"){if(t!==void 0){let s=t,a=e.field();return s.mapKey===a.mapKey&&s.mapKind==a.mapKind&&s.scalar===a.scalar&&((n=s.message)===null||n===void 0?void 0:n.typeName)===((o=a.message)===null||o===void 0?void 0:o.typeName)&&((u=s.enum)===null||u===void 0?void 0:u.typeName)===((r=a.enum)===null||r===void 0?void 0:r.typeName)}return!0}return!1}function it(e,t){return Y(e)&&G in e&&"desc"in e&&Y(e.desc)&&e.desc.kind==="message"&&(t===void 0||e.desc.typeName==t.typeName)}function _u(e){return vu(e.$typeName)}function B(e){let t=e.fields[0];return vu(e.typeName)&&t!==void 0&&t.fieldKind=="scalar"&&t.name=="value"&&t.number==1}function qt(e){switch(e.typeName){case"google.protobuf.Any":case"google.protobuf.Timestamp":case"google.protobuf.Duration":case"google.protobuf.FieldMask":case"google.protobuf.Struct":case"google.protobuf.Value":case"google.protobuf.ListValue":return!0;default:return B(e)}}var ka=new Set(["google.protobuf.DoubleValue","google.protobuf.FloatValue","google.protobuf.Int64Value","google.protobuf.UInt64Value","google.protobuf.Int32Value","google.protobuf.UInt32Value","google.protobuf.BoolValue","google.protobuf.StringValue","google.protobuf.BytesValue"]);function vu(e){return ka.has(e)}var Ga=999,Ua=998,Eu=2;function O(e,t){return rt(t,e)?t:Su(e)(t)}var yu=new WeakMap;function Su(e){let t=yu.get(e);return t===void 0&&(t=Fa(e),yu.set(e,t)),t}var a0=0,Nu=1,Tu=2,Iu=3;function Fa(e){let t=e.typeName,{properties:n,prototype:o}=Va(e);return u=>{let r;o!==void 0?(r=Object.create(o),r.$typeName=t):r={$typeName:t};for(let s=0;s<n.length;s++){let a=n[s],i=a.name,l=u?.[i];switch(a.kind){case a0:l!=null?r[i]=a.convert!==void 0?a.convert(l):l:a.constant!==void 0&&(r[i]=a.constant);break;case Nu:r[i]=a.convert!==void 0&&Array.isArray(l)?l.map(a.convert):l??[];break;case Tu:if(a.convert===void 0||!Y(l))r[i]=l??{};else{let p={},d=Object.keys(l);for(let g=0;g<d.length;g++)U(p,d[g],a.convert(l[d[g]]));r[i]=p}break;case Iu:{let p=l;if(p?.case!=null){let d=a.convert.get(p.case);if(d!==void 0){r[i]={case:p.case,value:d(p.value)};break}}r[i]={case:void 0};break}}}return r}}function Va(e){var t,n;let o=[],u={},r=Ba(e);for(let s of e.members){let a=s.localName;if(s.kind=="oneof"){o.push({name:a,kind:Iu,constant:void 0,convert:$a(s)});continue}switch(s.fieldKind){case"message":{o.push({name:a,kind:a0,constant:void 0,convert:Wt(s)});break}case"list":{o.push({name:a,kind:Nu,constant:void 0,convert:s.listKind=="message"?(t=Wt(s))!==null&&t!==void 0?t:(i=>i):s.scalar==f.BYTES?lt:void 0});break}case"map":{o.push({name:a,kind:Tu,constant:void 0,convert:s.mapKind=="message"?(n=Wt(s))!==null&&n!==void 0?n:(i=>i):s.scalar==f.BYTES?lt:void 0});break}default:{let i=qa(s);o.push({name:a,kind:a0,constant:s.presence==Eu?i:void 0,convert:s.fieldKind=="scalar"&&s.scalar==f.BYTES?lt:void 0}),r&&(u[a]=i);break}}}return{properties:o,prototype:r?u:void 0}}function $a(e){let t=new Map;for(let n of e.fields){let o;n.fieldKind=="message"?o=Wt(n):n.fieldKind=="scalar"&&n.scalar==f.BYTES&&(o=lt),t.set(n.localName,o??(u=>u))}return t}function Wt(e){if(e.fieldKind=="message"&&!e.oneof&&B(e.message))return e.message.fields[0].scalar==f.BYTES?lt:void 0;if(e.message.typeName=="google.protobuf.Struct"&&e.parent.typeName!=="google.protobuf.Value")return;let t=e.message,n;return o=>!Y(o)||rt(o,t)?o:(n??(n=Su(t)),n(o))}function lt(e){return Array.isArray(e)?new Uint8Array(e):e}function Ba(e){switch(e.file.edition){case Ga:return!1;case Ua:return!0;default:return e.fields.some(t=>t.presence!=Eu&&t.fieldKind!="message"&&!t.oneof)}}function qa(e){let t=e.getDefaultValue();return t!==void 0?e.fieldKind=="scalar"&&e.longAsString?t.toString():t:e.fieldKind=="scalar"?F(e.scalar,e.longAsString):e.enum.values[0].number}var Wa=["FieldValueInvalidError","FieldListRangeError","ForeignFieldError"],I=class extends Error{constructor(t,n,o="FieldValueInvalidError"){super(n),this.name=o,this.field=()=>t}};function xu(e){return e instanceof Error&&Wa.includes(e.name)&&"field"in e&&typeof e.field=="function"}var i0;function Ha(e){var t;i0=Object.assign(Object.assign({},e),{encodeUtf8Into:(t=e.encodeUtf8Into)!==null&&t!==void 0?t:l0(e.encodeUtf8.bind(e))})}function ct(){if(!i0){let e=globalThis;if(!e.TextEncoder||!e.TextDecoder)throw new Error("encoding API missing: install TextEncoder and TextDecoder on globalThis");let t=new e.TextEncoder,n=new e.TextDecoder("utf-8",{ignoreBOM:!0}),o,u={encodeUtf8(s){return t.encode(s)},decodeUtf8(s,a){return a?(o||(o=new e.TextDecoder("utf-8",{fatal:!0,ignoreBOM:!0})),o.decode(s)):n.decode(s)},checkUtf8(s){try{return encodeURIComponent(s),!0}catch{return!1}}};t.encodeInto&&(u.encodeUtf8Into=t.encodeInto.bind(t));let r=String.prototype.isWellFormed;r&&(u.checkUtf8=s=>r.call(s)),Ha(u)}return i0}function l0(e){return(t,n)=>{let o=e(t);return n.set(o),{written:o.byteLength}}}var C;(function(e){e[e.Varint=0]="Varint",e[e.Bit64=1]="Bit64",e[e.LengthDelimited=2]="LengthDelimited",e[e.StartGroup=3]="StartGroup",e[e.EndGroup=4]="EndGroup",e[e.Bit32=5]="Bit32"})(C||(C={}));var f0=4294967295,m0=2147483647,d0=-2147483648,ke=class{constructor(t){this.stackPos=[],this.encodeUtf8Into=t?l0(t):ct().encodeUtf8Into,this.buffer=wu,this.viewCache=Ya,this.pos=0}ensureCapacity(t){let n=this.pos+t;if(n>this.buffer.length){let o=this.buffer.length||Ka;for(;o<n;)o*=2;let u=new Uint8Array(o);this.pos>0&&u.set(this.buffer),this.buffer=u}}view(){let t=this.buffer,n=this.viewCache;if(n.byteLength===t.byteLength)return n;let o=new DataView(t.buffer);return this.viewCache=o,o}finish(){let t=this.buffer.slice(0,this.pos);return this.pos=0,this.stackPos=[],t}fork(){return this.stackPos.push(this.pos),this.ensureCapacity(pt),this.buffer[this.pos++]=0,this}join(){let t=this.stackPos.pop();if(t===void 0)throw new Error("invalid state, fork stack empty");let n=this.pos-t-pt,o=c0(n);return o>pt&&(this.ensureCapacity(o-pt),this.buffer.copyWithin(t+o,t+pt,this.pos)),this.pos=t,this.uint32(n),this.pos+=n,this}tag(t,n){return this.uint32((t<<3|n)>>>0)}raw(t){return this.ensureCapacity(t.length),this.buffer.set(t,this.pos),this.pos+=t.length,this}uint32(t){if(Ru(t),this.ensureCapacity(5),t<128)return this.buffer[this.pos++]=t,this;for(;t>127;)this.buffer[this.pos++]=t&127|128,t>>>=7;return this.buffer[this.pos++]=t,this}int32(t){if(p0(t),t>=0)return this.uint32(t);this.ensureCapacity(10);for(let n=0;n<9;n++)this.buffer[this.pos++]=t&127|128,t>>=7;return this.buffer[this.pos++]=1,this}bool(t){return this.ensureCapacity(1),this.buffer[this.pos++]=t?1:0,this}bytes(t){return this.uint32(t.byteLength),this.raw(t)}string(t){typeof t!="string"&&(t=String(t));let n=t.length;if(n<=Cu){this.ensureCapacity(n+1);let i=this.buffer,l=this.pos;i[l++]=n;let p=0;for(;p<n;p++){let d=t.charCodeAt(p);if(d>127)break;i[l++]=d}if(p==n)return this.pos=l,this}this.ensureCapacity(n*3+5);let o=c0(n),u=this.buffer,r=this.pos,{written:s}=this.encodeUtf8Into(t,u.subarray(r+o)),a=c0(s);return a!=o&&u.copyWithin(r+a,r+o,r+o+s),this.uint32(s),this.pos+=s,this}float(t){return ja(t),this.ensureCapacity(4),this.view().setFloat32(this.pos,t,!0),this.pos+=4,this}double(t){return this.ensureCapacity(8),this.view().setFloat64(this.pos,t,!0),this.pos+=8,this}fixed32(t){return Ru(t),this.ensureCapacity(4),this.view().setUint32(this.pos,t,!0),this.pos+=4,this}sfixed32(t){return p0(t),this.ensureCapacity(4),this.view().setInt32(this.pos,t,!0),this.pos+=4,this}sint32(t){return p0(t),this.uint32((t<<1^t>>31)>>>0)}sfixed64(t){let n=T.enc(t);this.ensureCapacity(8);let o=this.view();return o.setInt32(this.pos,n.lo,!0),o.setInt32(this.pos+4,n.hi,!0),this.pos+=8,this}fixed64(t){let n=T.uEnc(t);this.ensureCapacity(8);let o=this.view();return o.setInt32(this.pos,n.lo,!0),o.setInt32(this.pos+4,n.hi,!0),this.pos+=8,this}int64(t){let n=T.enc(t);return this.writeVarint64(n.lo,n.hi)}sint64(t){let n=T.enc(t),o=n.hi>>31,u=n.lo<<1^o,r=(n.hi<<1|n.lo>>>31)^o;return this.writeVarint64(u,r)}uint64(t){let n=T.uEnc(t);return this.writeVarint64(n.lo,n.hi)}writeVarint64(t,n){this.ensureCapacity(10);let o=this.buffer,u=this.pos;for(let a=0;a<28;a=a+7){let i=t>>>a,l=!(!(i>>>7)&&n==0);if(o[u++]=(l?i|128:i)&255,!l)return this.pos=u,this}let r=t>>>28&15|(n&7)<<4,s=n>>3!=0;if(o[u++]=(s?r|128:r)&255,!s)return this.pos=u,this;for(let a=3;a<31;a=a+7){let i=n>>>a,l=!!(i>>>7);if(o[u++]=(l?i|128:i)&255,!l)return this.pos=u,this}return o[u++]=n>>>31&1,this.pos=u,this}},Ka=128,pt=1,wu=new Uint8Array(0),Ya=new DataView(wu.buffer),Cu=32;function c0(e){return e<128?1:e<16384?2:e<2097152?3:e<268435456?4:5}var oe=class{constructor(t,n=ct().decodeUtf8){this.decodeUtf8=n,this.varint64Lo=0,this.varint64Hi=0,this.varint64=ou,this.uint32=au,this.buf=t,this.len=t.length,this.pos=0,this.view=new DataView(t.buffer,t.byteOffset,t.byteLength)}tag(){let t=this.pos,n=this.uint32(),o=this.pos-t;if(o>5||o==5&&this.buf[this.pos-1]>15)throw new Error("illegal tag: varint overflows uint32");let u=n>>>3,r=n&7;if(u<=0||r>5)throw new Error("illegal tag: field no "+u+" wire type "+r);return[u,r]}skip(t,n,o=100){let u=this.pos;switch(t){case C.Varint:for(;this.buf[this.pos++]&128;);break;case C.Bit64:this.pos+=4;case C.Bit32:this.pos+=4;break;case C.LengthDelimited:let r=this.uint32();this.pos+=r;break;case C.StartGroup:if(o<=0)throw new Error("maximum recursion depth reached");for(;;){let[s,a]=this.tag();if(a===C.EndGroup){if(n!==void 0&&s!==n)throw new Error("invalid end group tag");break}this.skip(a,s,o-1)}break;default:throw new Error("cant skip wire type "+t)}return this.assertBounds(),this.buf.subarray(u,this.pos)}assertBounds(){if(this.pos>this.len)throw new RangeError("premature EOF")}int32(){return this.uint32()|0}sint32(){let t=this.uint32();return t>>>1^-(t&1)}int64(){return this.varint64(),T.dec(this.varint64Lo,this.varint64Hi)}uint64(){return this.varint64(),T.uDec(this.varint64Lo,this.varint64Hi)}sint64(){this.varint64();let t=this.varint64Lo,n=this.varint64Hi,o=-(t&1);return t=(t>>>1|(n&1)<<31)^o,n=n>>>1^o,T.dec(t,n)}bool(){let t=this.buf[this.pos];return t<128?(this.pos++,t!==0):(this.varint64(),this.varint64Lo!==0||this.varint64Hi!==0)}fixed32(){return this.view.getUint32((this.pos+=4)-4,!0)}sfixed32(){return this.view.getInt32((this.pos+=4)-4,!0)}fixed64(){return T.uDec(this.sfixed32(),this.sfixed32())}sfixed64(){return T.dec(this.sfixed32(),this.sfixed32())}float(){return this.view.getFloat32((this.pos+=4)-4,!0)}double(){return this.view.getFloat64((this.pos+=8)-8,!0)}bytes(){let t=this.uint32(),n=this.pos;return this.pos+=t,this.assertBounds(),this.buf.subarray(n,n+t)}string(t){let n=this.uint32(),o=this.pos;this.pos+=n,this.assertBounds();let u=this.buf;if(n<=Cu){let r=new Array(n);for(let s=0;s<n;s++){let a=u[o+s];if(a>127)return this.decodeUtf8(u.subarray(o,this.pos),t);r[s]=a}return String.fromCharCode.apply(String,r)}return this.decodeUtf8(u.subarray(o,this.pos),t)}};function p0(e){if(typeof e=="string")e=Number(e);else if(typeof e!="number")throw new Error("invalid int32: "+typeof e);if(!Number.isInteger(e)||e>m0||e<d0)throw new Error("invalid int32: "+e)}function Ru(e){if(typeof e=="string")e=Number(e);else if(typeof e!="number")throw new Error("invalid uint32: "+typeof e);if(!Number.isInteger(e)||e>f0||e<0)throw new Error("invalid uint32: "+e)}function ja(e){if(typeof e=="string"){let t=e;if(e=Number(e),Number.isNaN(e)&&t!=="NaN")throw new Error("invalid float32: "+t)}else if(typeof e!="number")throw new Error("invalid float32: "+typeof e);if(!Number.isFinite(Math.fround(e))&&Number.isFinite(e))throw new Error("invalid float32: "+e)}function Ht(e,t){let n=e.fieldKind=="list"?st(t,e):e.fieldKind=="map"?at(t,e):b0(e,t);if(n===!0)return;let o;switch(e.fieldKind){case"list":o=`expected ${Au(e)}, got ${D(t)}`;break;case"map":o=`expected ${Lu(e)}, got ${D(t)}`;break;default:o=K(e,t,n)}return new I(e,o)}function g0(e,t,n){let o=b0(e,n);if(o!==!0)return new I(e,`list item #${t+1}: ${K(e,n,o)}`)}function Ou(e,t,n){let o=le(e.mapKey)(t);if(o!==!0)return new I(e,`invalid map key: ${K({scalar:e.mapKey},t,o)}`);let u=b0(e,n);if(u!==!0)return new I(e,`map entry ${D(t)}: ${K(e,n,u)}`)}function b0(e,t){return e.scalar!==void 0?le(e.scalar)(t):e.enum!==void 0?e.enum.open?le(f.INT32)(t):e.enum.values.some(n=>n.number===t):it(t,e.message)}function le(e){switch(e){case f.DOUBLE:return t=>typeof t=="number";case f.FLOAT:return t=>typeof t!="number"?!1:!Number.isFinite(Math.fround(t))&&Number.isFinite(t)?`${t.toFixed()} out of range`:!0;case f.INT32:case f.SFIXED32:case f.SINT32:return t=>typeof t!="number"||!Number.isInteger(t)?!1:t>m0||t<d0?`${t.toFixed()} out of range`:!0;case f.FIXED32:case f.UINT32:return t=>typeof t!="number"||!Number.isInteger(t)?!1:t>f0||t<0?`${t.toFixed()} out of range`:!0;case f.BOOL:return t=>typeof t=="boolean";case f.STRING:return t=>typeof t!="string"?!1:ct().checkUtf8(t)||"invalid UTF8";case f.BYTES:return t=>t instanceof Uint8Array;case f.INT64:case f.SFIXED64:case f.SINT64:return t=>{if(typeof t=="bigint"||typeof t=="number"||typeof t=="string"&&t.length>0)try{return T.parse(t),!0}catch{return`${t} out of range`}return!1};case f.FIXED64:case f.UINT64:return t=>{if(typeof t=="bigint"||typeof t=="number"||typeof t=="string"&&t.length>0)try{return T.uParse(t),!0}catch{return`${t} out of range`}return!1}}}function K(e,t,n){return n=typeof n=="string"?`: ${n}`:`, got ${D(t)}`,e.scalar!==void 0?`expected ${Ja(e.scalar)}`+n:e.enum!==void 0?`expected ${e.enum.toString()}`+n:`expected ${Pu(e.message)}`+n}function D(e){switch(typeof e){case"object":return e===null?"null":e instanceof Uint8Array?`Uint8Array(${e.length})`:Array.isArray(e)?`Array(${e.length})`:st(e)?Au(e.field()):at(e)?Lu(e.field()):it(e)?Pu(e.desc):rt(e)?`message ${e.$typeName}`:"object";case"string":return e.length>30?"string":`"${e.split('"').join('\\"')}"`;case"boolean":return String(e);case"number":return String(e);case"bigint":return String(e)+"n";default:return typeof e}}function Pu(e){return`ReflectMessage (${e.typeName})`}function Au(e){switch(e.listKind){case"message":return`ReflectList (${e.message.toString()})`;case"enum":return`ReflectList (${e.enum.toString()})`;case"scalar":return`ReflectList (${f[e.scalar]})`}}function Lu(e){switch(e.mapKind){case"message":return`ReflectMap (${f[e.mapKey]}, ${e.message.toString()})`;case"enum":return`ReflectMap (${f[e.mapKey]}, ${e.enum.toString()})`;case"scalar":return`ReflectMap (${f[e.mapKey]}, ${f[e.scalar]})`}}function Ja(e){switch(e){case f.STRING:return"string";case f.BOOL:return"boolean";case f.INT64:case f.SINT64:case f.SFIXED64:return"bigint (int64)";case f.UINT64:case f.FIXED64:return"bigint (uint64)";case f.BYTES:return"Uint8Array";case f.DOUBLE:return"number (float64)";case f.FLOAT:return"number (float32)";case f.FIXED32:case f.UINT32:return"number (uint32)";case f.INT32:case f.SFIXED32:case f.SINT32:return"number (int32)"}}var Xa=0;function V(e){if(za(e))return{toMessage:n=>Kt(n),toLocal:n=>Yt(n)};if(e.fieldKind=="message"&&!e.oneof&&B(e.message)){let n=e.message,o=n.fields[0].localName;return{toMessage:u=>{let r=O(n);return u!==void 0&&(r[o]=u),r},toLocal:u=>u[o]}}let t=e.message;return{toMessage:n=>n===void 0?O(t):n,toLocal:n=>n}}function za(e){return e.message.typeName=="google.protobuf.Struct"&&e.parent.typeName!="google.protobuf.Value"}function Kt(e){let t={$typeName:"google.protobuf.Struct",fields:{}};if(Y(e))for(let n of Object.keys(e))U(t.fields,n,Mu(e[n]));return t}function Yt(e){let t={};for(let n of Object.keys(e.fields))U(t,n,Du(e.fields[n]));return t}function Du(e){switch(e.kind.case){case"structValue":return Yt(e.kind.value);case"listValue":return e.kind.value.values.map(Du);case"nullValue":case void 0:return null;default:return e.kind.value}}function Mu(e){let t={$typeName:"google.protobuf.Value",kind:{case:void 0}};switch(typeof e){case"number":t.kind={case:"numberValue",value:e};break;case"string":t.kind={case:"stringValue",value:e};break;case"boolean":t.kind={case:"boolValue",value:e};break;case"object":if(e===null)t.kind={case:"nullValue",value:Xa};else if(Array.isArray(e)){let n={$typeName:"google.protobuf.ListValue",values:[]};if(Array.isArray(e))for(let o of e)n.values.push(Mu(o));t.kind={case:"listValue",value:n}}else t.kind={case:"structValue",value:Kt(e)};break}return t}function Fu(e,t,n=!0){return new Jt(e,t,n)}var ku=new WeakMap,Jt=class{get sortedFields(){let t=ku.get(this.desc);if(t)return t;let n=this.desc.fields.concat().sort((o,u)=>o.number-u.number);return ku.set(this.desc,n),n}constructor(t,n,o=!0){this.lists=new Map,this.maps=new Map,this.check=o,this.desc=t,this.message=this[G]=n??O(t),this.fields=t.fields,this.oneofs=t.oneofs,this.members=t.members}findNumber(t){return this._fieldsByNumber||(this._fieldsByNumber=new Map(this.desc.fields.map(n=>[n.number,n]))),this._fieldsByNumber.get(t)}oneofCase(t){return ft(this.message,t),fu(this.message,t)}isSet(t){return ft(this.message,t),mu(this.message,t)}clear(t){ft(this.message,t),hu(this.message,t)}get(t){ft(this.message,t);let n=du(this.message,t);switch(t.fieldKind){case"list":let o=this.lists.get(t);return(!o||o[G]!==n)&&this.lists.set(t,o=new v0(t,n,this.check)),o;case"map":let u=this.maps.get(t);return(!u||u[G]!==n)&&this.maps.set(t,u=new y0(t,n,this.check)),u;case"message":return S0(t,n,this.check);case"scalar":return n===void 0?F(t.scalar,!1):N0(t,n);case"enum":return n??t.enum.values[0].number}}set(t,n){if(ft(this.message,t),this.check){let u=Ht(t,n);if(u)throw u}let o;t.fieldKind=="message"?o=E0(t,n):at(n)||st(n)?o=n[G]:o=T0(t,n),gu(this.message,t,o)}getUnknown(){return this.message.$unknown}setUnknown(t){this.message.$unknown=t}};function ft(e,t){if(t.parent.typeName!==e.$typeName)throw new I(t,`cannot use ${t.toString()} with message ${e.$typeName}`,"ForeignFieldError")}var v0=class{field(){return this._field}get size(){return this._arr.length}constructor(t,n,o){this._field=t,this._arr=this[G]=n,this.check=o}get(t){let n=this._arr[t];return n===void 0?void 0:h0(this._field,n,this.check)}set(t,n){if(t<0||t>=this._arr.length)throw new I(this._field,`list item #${t+1}: out of range`);if(this.check){let o=g0(this._field,t,n);if(o)throw o}this._arr[t]=Gu(this._field,n)}add(t){if(this.check){let n=g0(this._field,this._arr.length,t);if(n)throw n}this._arr.push(Gu(this._field,t))}clear(){this._arr.splice(0,this._arr.length)}[Symbol.iterator](){return this.values()}keys(){return this._arr.keys()}*values(){for(let t of this._arr)yield h0(this._field,t,this.check)}*entries(){for(let t=0;t<this._arr.length;t++)yield[t,h0(this._field,this._arr[t],this.check)]}};var y0=class{constructor(t,n,o=!0){this.obj=this[G]=n??{},this.check=o,this._field=t}field(){return this._field}set(t,n){if(this.check){let o=Ou(this._field,t,n);if(o)throw o}return U(this.obj,jt(t),Za(this._field,n)),this}delete(t){let n=jt(t),o=Object.prototype.hasOwnProperty.call(this.obj,n);return o&&delete this.obj[n],o}clear(){for(let t of Object.keys(this.obj))delete this.obj[t]}get(t){let n=bu(this.obj,jt(t));return n!==void 0&&(n=_0(this._field,n,this.check)),n}has(t){return Object.prototype.hasOwnProperty.call(this.obj,jt(t))}*keys(){for(let t of Object.keys(this.obj))yield Uu(t,this._field.mapKey)}*entries(){for(let t of Object.entries(this.obj))yield[Uu(t[0],this._field.mapKey),_0(this._field,t[1],this.check)]}[Symbol.iterator](){return this.entries()}get size(){return Object.keys(this.obj).length}*values(){for(let t of Object.values(this.obj))yield _0(this._field,t,this.check)}forEach(t,n){for(let o of this.entries())t.call(n,o[1],o[0],this)}};function E0(e,t){return it(t)?_u(t.message)&&!e.oneof&&e.fieldKind=="message"?t.message.value:t.desc.typeName=="google.protobuf.Struct"&&e.parent.typeName!="google.protobuf.Value"?Yt(t.message):t.message:t}function S0(e,t,n){return t!==void 0&&(B(e.message)&&!e.oneof&&e.fieldKind=="message"?t={$typeName:e.message.typeName,value:N0(e.message.fields[0],t)}:e.message.typeName=="google.protobuf.Struct"&&e.parent.typeName!="google.protobuf.Value"&&Y(t)&&(t=Kt(t))),new Jt(e.message,t,n)}function Gu(e,t){return e.listKind=="message"?E0(e,t):T0(e,t)}function h0(e,t,n){return e.listKind=="message"?S0(e,t,n):N0(e,t)}function Za(e,t){return e.mapKind=="message"?E0(e,t):T0(e,t)}function _0(e,t,n){return e.mapKind=="message"?S0(e,t,n):t}function jt(e){return typeof e=="string"||typeof e=="number"?e:String(e)}function Uu(e,t){switch(t){case f.STRING:return e;case f.INT32:case f.FIXED32:case f.UINT32:case f.SFIXED32:case f.SINT32:{let n=Number.parseInt(e);if(Number.isFinite(n))return n;break}case f.BOOL:switch(e){case"true":return!0;case"false":return!1}break;case f.UINT64:case f.FIXED64:try{return T.uParse(e)}catch{}break;default:try{return T.parse(e)}catch{}break}return e}function N0(e,t){switch(e.scalar){case f.INT64:case f.SFIXED64:case f.SINT64:"longAsString"in e&&e.longAsString&&typeof t=="string"&&(t=T.parse(t));break;case f.FIXED64:case f.UINT64:"longAsString"in e&&e.longAsString&&typeof t=="string"&&(t=T.uParse(t));break}return t}function T0(e,t){switch(e.scalar){case f.INT64:case f.SFIXED64:case f.SINT64:"longAsString"in e&&e.longAsString?t=String(t):(typeof t=="string"||typeof t=="number")&&(t=T.parse(t));break;case f.FIXED64:case f.UINT64:"longAsString"in e&&e.longAsString?t=String(t):(typeof t=="string"||typeof t=="number")&&(t=T.uParse(t));break}return t}var Vu=Uint8Array.prototype.setFromBase64;function Ue(e){let t=e.length,n=t-(t+3>>2);(t&3)==0&&e[t-1]=="="&&(n-=e[t-2]=="="?2:1);let o=new Uint8Array(n),u=-1;if(Vu)try{let r=Vu.call(o,e);r.read==t&&(u=r.written)}catch{}return u<0&&(u=Qa(o,e)),u==n?o:o.subarray(0,u)}function Qa(e,t){let n=ti(),o=0,u=0,r,s=0;for(let a=0;a<t.length;a++){if(r=n[t.charCodeAt(a)],r===void 0)switch(t[a]){case"=":u=0;case`
`:case"\r":case"	":case" ":continue;default:throw Error("invalid base64 string")}switch(u){case 0:s=r,u=1;break;case 1:e[o++]=s<<2|(r&48)>>4,s=r,u=2;break;case 2:e[o++]=(s&15)<<4|(r&60)>>2,s=r,u=3;break;case 3:e[o++]=(s&3)<<6|r,u=0;break}}if(u==1)throw Error("invalid base64 string");return o}var $u=Uint8Array.prototype.toBase64,ei={std:{alphabet:"base64",omitPadding:!1},std_raw:{alphabet:"base64",omitPadding:!0},url:{alphabet:"base64url",omitPadding:!0}};function I0(e,t="std"){if($u)return $u.call(e,ei[t]);let n=qu(t),o=t=="std",u="",r=0,s,a=0;for(let i=0;i<e.length;i++)switch(s=e[i],r){case 0:u+=n[s>>2],a=(s&3)<<4,r=1;break;case 1:u+=n[a|s>>4],a=(s&15)<<2,r=2;break;case 2:u+=n[a|s>>6],u+=n[s&63],r=0;break}return r&&(u+=n[a],o&&(u+="=",r==1&&(u+="="))),u}var Xt,Bu,Ge;function qu(e){return Xt||(Xt="ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".split(""),Bu=Xt.slice(0,-2).concat("-","_")),e=="url"?Bu:Xt}function ti(){if(!Ge){Ge=[];let e=qu("std");for(let t=0;t<e.length;t++)Ge[e[t].charCodeAt(0)]=t;Ge[45]=e.indexOf("+"),Ge[95]=e.indexOf("/")}return Ge}function ce(e){let t=!1,n=[];for(let o=0;o<e.length;o++){let u=e.charAt(o);switch(u){case"_":t=!0;break;case"0":case"1":case"2":case"3":case"4":case"5":case"6":case"7":case"8":case"9":n.push(u),t=!1;break;default:t&&(t=!1,u=u.toUpperCase()),n.push(u);break}}return n.join("")}function zt(e){return e.replace(/[A-Z]/g,t=>"_"+t.toLowerCase())}var ni=new Set(["constructor","toString","toJSON","valueOf"]);function Fe(e){return ni.has(e)?e+"$":e}function mt(e){for(let t of e.field)Te(t,"jsonName")||(t.jsonName=ce(t.name));e.nestedType.forEach(mt)}function Wu(e,t){let n=e.values.find(o=>o.name===t);if(!n)throw new Error(`cannot parse ${e} default value: ${t}`);return n.number}function Hu(e,t){switch(e){case f.STRING:return t;case f.BYTES:{let n=oi(t);if(n===!1)throw new Error(`cannot parse ${f[e]} default value: ${t}`);return n}case f.INT64:case f.SFIXED64:case f.SINT64:return T.parse(t);case f.UINT64:case f.FIXED64:return T.uParse(t);case f.DOUBLE:case f.FLOAT:switch(t){case"inf":return Number.POSITIVE_INFINITY;case"-inf":return Number.NEGATIVE_INFINITY;case"nan":return Number.NaN;default:return parseFloat(t)}case f.BOOL:return t==="true";case f.INT32:case f.UINT32:case f.SINT32:case f.FIXED32:case f.SFIXED32:return parseInt(t,10)}}function oi(e){let t=[],n={tail:e,c:"",next(){return this.tail.length==0?!1:(this.c=this.tail[0],this.tail=this.tail.substring(1),!0)},take(o){if(this.tail.length>=o){let u=this.tail.substring(0,o);return this.tail=this.tail.substring(o),u}return!1}};for(;n.next();)switch(n.c){case"\\":if(n.next())switch(n.c){case"\\":t.push(n.c.charCodeAt(0));break;case"b":t.push(8);break;case"f":t.push(12);break;case"n":t.push(10);break;case"r":t.push(13);break;case"t":t.push(9);break;case"v":t.push(11);break;case"0":case"1":case"2":case"3":case"4":case"5":case"6":case"7":{let o=n.c,u=n.take(2);if(u===!1)return!1;let r=parseInt(o+u,8);if(Number.isNaN(r))return!1;t.push(r);break}case"x":{let o=n.c,u=n.take(2);if(u===!1)return!1;let r=parseInt(o+u,16);if(Number.isNaN(r))return!1;t.push(r);break}case"u":{let o=n.c,u=n.take(4);if(u===!1)return!1;let r=parseInt(o+u,16);if(Number.isNaN(r))return!1;let s=new Uint8Array(4);new DataView(s.buffer).setInt32(0,r,!0),t.push(s[0],s[1],s[2],s[3]);break}case"U":{let o=n.c,u=n.take(8);if(u===!1)return!1;let r=T.uEnc(o+u),s=new Uint8Array(8),a=new DataView(s.buffer);a.setInt32(0,r.lo,!0),a.setInt32(4,r.hi,!0),t.push(s[0],s[1],s[2],s[3],s[4],s[5],s[6],s[7]);break}}break;default:t.push(n.c.charCodeAt(0))}return new Uint8Array(t)}function*Zt(e){switch(e.kind){case"file":for(let t of e.messages)yield t,yield*Zt(t);yield*e.enums,yield*e.services,yield*e.extensions;break;case"message":for(let t of e.nestedMessages)yield t,yield*Zt(t);yield*e.nestedEnums,yield*e.nestedExtensions;break}}function Qt(e,t){return ui([e,t])}function ui(e,t){let n=ri();if(!e.length)return n;if("$typeName"in e[0]&&e[0].$typeName=="google.protobuf.FileDescriptorSet"){for(let o of e[0].file)t?.(o),Ju(o,n);return n}if("$typeName"in e[0]){let s=function(a){let i=[];for(let l of a.dependency){if(n.getFile(l)!=null||r.has(l))continue;let p=u(l);if(!p)throw new Error(`Unable to resolve ${l}, imported by ${a.name}`);"kind"in p?n.addFile(p,!1,!0):(r.add(p.name),i.push(p))}return i.concat(...i.map(s))},o=e[0],u=e[1],r=new Set;for(let a of[o,...s(o)].reverse())t?.(a),Ju(a,n)}else for(let o of e)for(let u of o.files)n.addFile(u);return n}function ri(){let e=new Map,t=new Map,n=new Map;return{kind:"registry",types:e,extendees:t,[Symbol.iterator](){return e.values()},get files(){return n.values()},addFile(o,u,r){if(n.set(o.proto.name,o),!u)for(let s of Zt(o))this.add(s);if(r)for(let s of o.dependencies)this.addFile(s,u,r)},add(o){if(o.kind=="extension"){let u=t.get(o.extendee.typeName);u||t.set(o.extendee.typeName,u=new Map),u.set(o.number,o)}e.set(o.typeName,o)},get(o){return e.get(o)},getFile(o){return n.get(o)},getMessage(o){let u=e.get(o);return u?.kind=="message"?u:void 0},getEnum(o){let u=e.get(o);return u?.kind=="enum"?u:void 0},getExtension(o){let u=e.get(o);return u?.kind=="extension"?u:void 0},getExtensionFor(o,u){var r;return(r=t.get(o.typeName))===null||r===void 0?void 0:r.get(u)},getService(o){let u=e.get(o);return u?.kind=="service"?u:void 0}}}var si=998,ai=999,ii=9999,li=9,gt=10,dt=11,ci=12,Ku=14,O0=3,pi=2,Yu=1,fi=0,x0=1,ju=2,mi=3,di=1,gi=2,bi=1,hi=2;var _i=1002,zu={998:{fieldPresence:1,enumType:2,repeatedFieldEncoding:2,utf8Validation:3,messageEncoding:1,jsonFormat:2,enforceNamingStyle:2,defaultSymbolVisibility:1,enforceProtoLimits:1},999:{fieldPresence:2,enumType:1,repeatedFieldEncoding:1,utf8Validation:2,messageEncoding:1,jsonFormat:1,enforceNamingStyle:2,defaultSymbolVisibility:1,enforceProtoLimits:1},1e3:{fieldPresence:1,enumType:1,repeatedFieldEncoding:1,utf8Validation:2,messageEncoding:1,jsonFormat:1,enforceNamingStyle:2,defaultSymbolVisibility:1,enforceProtoLimits:1},1001:{fieldPresence:1,enumType:1,repeatedFieldEncoding:1,utf8Validation:2,messageEncoding:1,jsonFormat:1,enforceNamingStyle:1,defaultSymbolVisibility:2,enforceProtoLimits:1},1002:{fieldPresence:1,enumType:1,repeatedFieldEncoding:1,utf8Validation:2,messageEncoding:1,jsonFormat:1,enforceNamingStyle:3,defaultSymbolVisibility:4,enforceProtoLimits:2}};function Ju(e,t){var n,o;let u={kind:"file",proto:e,deprecated:(o=(n=e.options)===null||n===void 0?void 0:n.deprecated)!==null&&o!==void 0?o:!1,edition:Si(e),name:e.name.replace(/\.proto$/,""),dependencies:Ni(e,t),enums:[],messages:[],extensions:[],services:[],toString(){return`file ${e.name}`}},r=new Map,s={get(a){return r.get(a)},add(a){var i;j(((i=a.proto.options)===null||i===void 0?void 0:i.mapEntry)===!0),r.set(a.typeName,a)}};for(let a of e.enumType)Zu(a,u,void 0,t);for(let a of e.messageType)Qu(a,u,void 0,t,s);for(let a of e.service)vi(a,u,t);R0(u,t);for(let a of r.values())w0(a,t,s);for(let a of u.messages)w0(a,t,s),R0(a,t);t.addFile(u,!0)}function R0(e,t){switch(e.kind){case"file":for(let n of e.proto.extension){let o=C0(n,e,t);e.extensions.push(o),t.add(o)}break;case"message":for(let n of e.proto.extension){let o=C0(n,e,t);e.nestedExtensions.push(o),t.add(o)}for(let n of e.nestedMessages)R0(n,t);break}}function w0(e,t,n){let o=e.proto.oneofDecl.map(r=>Ei(r,e)),u=new Set;for(let r of e.proto.field){let s=Ri(r,o),a=C0(r,e,t,s,n);e.fields.push(a),e.field[a.localName]=a,s===void 0?e.members.push(a):(s.fields.push(a),u.has(s)||(u.add(s),e.members.push(s)))}for(let r of o.filter(s=>u.has(s)))e.oneofs.push(r);for(let r of e.nestedMessages)w0(r,t,n)}function Zu(e,t,n,o){var u,r,s,a,i,l,p,d,g;let c=Ti(e.name,e.value),m={kind:"enum",proto:e,deprecated:(r=(u=e.options)===null||u===void 0?void 0:u.deprecated)!==null&&r!==void 0?r:!1,file:t,parent:n,open:!0,name:e.name,typeName:en(e,n,t),value:{},values:[],sharedPrefix:c,toString(){return`enum ${this.typeName}`}};m.open=Pi(m),o.add(m);for(let h of e.value){let b=h.name,_={kind:"enum_value",proto:h,deprecated:(a=(s=h.options)===null||s===void 0?void 0:s.deprecated)!==null&&a!==void 0?a:!1,parent:m,name:b,localName:Fe(c==null?b:b.substring(c.length)),number:h.number,jsonName:(i=Ii(h))!==null&&i!==void 0?i:b,toString(){return`enum value ${m.typeName}.${b}`}};m.values.push(_),(l=(d=m.value)[g=h.number])!==null&&l!==void 0||(d[g]=_)}((p=n?.nestedEnums)!==null&&p!==void 0?p:t.enums).push(m)}function Qu(e,t,n,o,u){var r,s,a,i;let l={kind:"message",proto:e,deprecated:(s=(r=e.options)===null||r===void 0?void 0:r.deprecated)!==null&&s!==void 0?s:!1,file:t,parent:n,name:e.name,typeName:en(e,n,t),fields:[],field:{},oneofs:[],members:[],nestedEnums:[],nestedMessages:[],nestedExtensions:[],toString(){return`message ${this.typeName}`}};((a=e.options)===null||a===void 0?void 0:a.mapEntry)===!0?u.add(l):(((i=n?.nestedMessages)!==null&&i!==void 0?i:t.messages).push(l),o.add(l));for(let p of e.enumType)Zu(p,t,l,o);for(let p of e.nestedType)Qu(p,t,l,o,u)}function vi(e,t,n){var o,u;let r={kind:"service",proto:e,deprecated:(u=(o=e.options)===null||o===void 0?void 0:o.deprecated)!==null&&u!==void 0?u:!1,file:t,name:e.name,typeName:en(e,void 0,t),methods:[],method:{},toString(){return`service ${this.typeName}`}};t.services.push(r),n.add(r);for(let s of e.method){let a=yi(s,r,n);r.methods.push(a),r.method[a.localName]=a}}function yi(e,t,n){var o,u,r,s;let a;e.clientStreaming&&e.serverStreaming?a="bidi_streaming":e.clientStreaming?a="client_streaming":e.serverStreaming?a="server_streaming":a="unary";let i=n.getMessage(pe(e.inputType)),l=n.getMessage(pe(e.outputType));j(i,`invalid MethodDescriptorProto: input_type ${e.inputType} not found`),j(l,`invalid MethodDescriptorProto: output_type ${e.inputType} not found`);let p=e.name;return{kind:"rpc",proto:e,deprecated:(u=(o=e.options)===null||o===void 0?void 0:o.deprecated)!==null&&u!==void 0?u:!1,parent:t,name:p,localName:Fe(p.length?Fe(p[0].toLowerCase()+p.substring(1)):p),methodKind:a,input:i,output:l,idempotency:(s=(r=e.options)===null||r===void 0?void 0:r.idempotencyLevel)!==null&&s!==void 0?s:fi,toString(){return`rpc ${t.typeName}.${p}`}}}function Ei(e,t){return{kind:"oneof",proto:e,deprecated:!1,parent:t,fields:[],name:e.name,localName:Fe(ce(e.name)),toString(){return`oneof ${t.typeName}.${this.name}`}}}function C0(e,t,n,o,u){var r,s,a;let i=u===void 0,l={kind:"field",proto:e,deprecated:(s=(r=e.options)===null||r===void 0?void 0:r.deprecated)!==null&&s!==void 0?s:!1,name:e.name,number:e.number,scalar:void 0,message:void 0,enum:void 0,presence:wi(e,o,i,t),utf8Validation:Ai(e,t),listKind:void 0,mapKind:void 0,mapKey:void 0,delimitedEncoding:void 0,packed:void 0,longAsString:!1,getDefaultValue:void 0},p;if(i){let m=t.kind=="file"?t:t.file,h=t.kind=="file"?void 0:t,b=en(e,h,m);l.kind="extension",l.file=m,l.parent=h,l.oneof=void 0,l.typeName=b,l.jsonName=`[${b}]`,p=()=>`extension ${b}`;let _=n.getMessage(pe(e.extendee));j(_,`invalid FieldDescriptorProto: extendee ${e.extendee} not found`),l.extendee=_}else{let m=t;j(m.kind=="message"),l.parent=m,l.oneof=o,l.localName=o?ce(e.name):Fe(ce(e.name)),l.jsonName=e.jsonName,p=()=>`field ${m.typeName}.${e.name}`}Object.defineProperty(l,"toString",{value:p,writable:!0,enumerable:!0,configurable:!0});let d=e.label,g=e.type,c=(a=e.options)===null||a===void 0?void 0:a.jstype;if(d===O0){let m=g==dt?u?.get(pe(e.typeName)):void 0;if(m){l.fieldKind="map";let{key:h,value:b}=Oi(m);return l.mapKey=h.scalar,l.mapKind=b.fieldKind,l.message=b.message,l.delimitedEncoding=!1,l.enum=b.enum,l.scalar=b.scalar,l}switch(l.fieldKind="list",g){case dt:case gt:l.listKind="message",l.message=n.getMessage(pe(e.typeName)),j(l.message),l.delimitedEncoding=Xu(e,t);break;case Ku:l.listKind="enum",l.enum=n.getEnum(pe(e.typeName)),j(l.enum);break;default:l.listKind="scalar",l.scalar=g,l.longAsString=c==Yu;break}return l.packed=Ci(e,t),l}switch(g){case dt:case gt:l.fieldKind="message",l.message=n.getMessage(pe(e.typeName)),j(l.message,`invalid FieldDescriptorProto: type_name ${e.typeName} not found`),l.delimitedEncoding=Xu(e,t),l.getDefaultValue=()=>{};break;case Ku:{let m=n.getEnum(pe(e.typeName));j(m!==void 0,`invalid FieldDescriptorProto: type_name ${e.typeName} not found`),l.fieldKind="enum",l.enum=n.getEnum(pe(e.typeName)),l.getDefaultValue=()=>Te(e,"defaultValue")?Wu(m,e.defaultValue):void 0;break}default:{l.fieldKind="scalar",l.scalar=g,l.longAsString=c==Yu,l.getDefaultValue=()=>Te(e,"defaultValue")?Hu(g,e.defaultValue):void 0;break}}return l}function Si(e){switch(e.syntax){case"":case"proto2":return si;case"proto3":return ai;case"editions":if(e.edition===ii)return _i;if(e.edition in zu)return e.edition;throw new Error(`${e.name}: unsupported edition`);default:throw new Error(`${e.name}: unsupported syntax "${e.syntax}"`)}}function Ni(e,t){return e.dependency.map(n=>{let o=t.getFile(n);if(!o)throw new Error(`Cannot find ${n}, imported by ${e.name}`);return o})}function Ti(e,t){let n=xi(e)+"_";for(let o of t){if(!o.name.toLowerCase().startsWith(n))return;let u=o.name.substring(n.length);if(u.length==0||/^\d/.test(u))return}return n}function Ii(e){var t,n;let r;for(let s of(n=(t=e.options)===null||t===void 0?void 0:t.$unknown)!==null&&n!==void 0?n:[]){if(s.no!==998||s.wireType!==C.LengthDelimited)continue;let a=new oe(new oe(s.data).bytes());for(;a.pos<a.len;){let[i,l]=a.tag();i===1&&l===C.LengthDelimited?r=a.string():a.skip(l,i)}}return r}function xi(e){return(e.substring(0,1)+e.substring(1).replace(/[A-Z]/g,t=>"_"+t)).toLowerCase()}function en(e,t,n){let o;return t?o=`${t.typeName}.${e.name}`:n.proto.package.length>0?o=`${n.proto.package}.${e.name}`:o=`${e.name}`,o}function pe(e){return e.startsWith(".")?e.substring(1):e}function Ri(e,t){if(!Te(e,"oneofIndex")||e.proto3Optional)return;let n=t[e.oneofIndex];return j(n,`invalid FieldDescriptorProto: oneof #${e.oneofIndex} for field #${e.number} not found`),n}function wi(e,t,n,o){if(e.label==pi)return mi;if(e.label==O0)return ju;if(t||e.proto3Optional||n)return x0;let u=Ie("fieldPresence",{proto:e,parent:o});return u==ju&&(e.type==dt||e.type==gt)?x0:u}function Ci(e,t){if(e.label!=O0)return!1;switch(e.type){case li:case ci:case gt:case dt:return!1}let n=e.options;return n&&Te(n,"packed")?n.packed:di==Ie("repeatedFieldEncoding",{proto:e,parent:t})}function Oi(e){let t=e.fields.find(o=>o.number===1),n=e.fields.find(o=>o.number===2);return j(t&&t.fieldKind=="scalar"&&t.scalar!=f.BYTES&&t.scalar!=f.FLOAT&&t.scalar!=f.DOUBLE&&n&&n.fieldKind!="list"&&n.fieldKind!="map"),{key:t,value:n}}function Pi(e){var t;return bi==Ie("enumType",{proto:e.proto,parent:(t=e.parent)!==null&&t!==void 0?t:e.file})}function Xu(e,t){return e.type==gt?!0:gi==Ie("messageEncoding",{proto:e,parent:t})}function Ai(e,t){return hi==Ie("utf8Validation",{proto:e,parent:t})}function Ie(e,t){var n,o;let u=(n=t.proto.options)===null||n===void 0?void 0:n.features;if(u){let r=u[e];if(r!=0)return r}if("kind"in t){if(t.kind=="message")return Ie(e,(o=t.parent)!==null&&o!==void 0?o:t.file);let r=zu[t.edition];if(!r)throw new Error(`feature default for edition ${t.edition} not found`);return r[e]}return Ie(e,t.parent)}function j(e,t){if(!e)throw new Error(t)}function er(e){let t=Li(e);return t.messageType.forEach(mt),Qt(t,()=>{}).getFile(t.name)}function Li(e){return Object.assign(Object.create({syntax:"",edition:0}),Object.assign(Object.assign({$typeName:"google.protobuf.FileDescriptorProto",dependency:[],publicDependency:[],weakDependency:[],optionDependency:[],service:[],extension:[]},e),{messageType:e.messageType.map(tr),enumType:e.enumType.map(nr)}))}function tr(e){var t,n,o,u,r,s,a,i;return Object.assign(Object.create({visibility:0}),{$typeName:"google.protobuf.DescriptorProto",name:e.name,field:(n=(t=e.field)===null||t===void 0?void 0:t.map(Di))!==null&&n!==void 0?n:[],extension:[],nestedType:(u=(o=e.nestedType)===null||o===void 0?void 0:o.map(tr))!==null&&u!==void 0?u:[],enumType:(s=(r=e.enumType)===null||r===void 0?void 0:r.map(nr))!==null&&s!==void 0?s:[],extensionRange:(i=(a=e.extensionRange)===null||a===void 0?void 0:a.map(p=>Object.assign({$typeName:"google.protobuf.DescriptorProto.ExtensionRange"},p)))!==null&&i!==void 0?i:[],oneofDecl:[],reservedRange:[],reservedName:[]})}function Di(e){return Object.assign(Object.create({label:1,typeName:"",extendee:"",defaultValue:"",oneofIndex:0,jsonName:"",proto3Optional:!1}),Object.assign(Object.assign({$typeName:"google.protobuf.FieldDescriptorProto"},e),{options:e.options?Mi(e.options):void 0}))}function Mi(e){var t,n,o;return Object.assign(Object.create({ctype:0,packed:!1,jstype:0,lazy:!1,unverifiedLazy:!1,deprecated:!1,weak:!1,debugRedact:!1,retention:0}),Object.assign(Object.assign({$typeName:"google.protobuf.FieldOptions"},e),{targets:(t=e.targets)!==null&&t!==void 0?t:[],editionDefaults:(o=(n=e.editionDefaults)===null||n===void 0?void 0:n.map(r=>Object.assign({$typeName:"google.protobuf.FieldOptions.EditionDefault"},r)))!==null&&o!==void 0?o:[],uninterpretedOption:[]}))}function nr(e){return Object.assign(Object.create({visibility:0}),{$typeName:"google.protobuf.EnumDescriptorProto",name:e.name,reservedName:[],reservedRange:[],value:e.value.map(n=>Object.assign({$typeName:"google.protobuf.EnumValueDescriptorProto"},n))})}function A(e,t,...n){return n.reduce((o,u)=>o.nestedMessages[u],e.messages[t])}var P0=er({name:"google/protobuf/descriptor.proto",package:"google.protobuf",messageType:[{name:"FileDescriptorSet",field:[{name:"file",number:1,type:11,label:3,typeName:".google.protobuf.FileDescriptorProto"}],extensionRange:[{start:536e6,end:536000001}]},{name:"FileDescriptorProto",field:[{name:"name",number:1,type:9,label:1},{name:"package",number:2,type:9,label:1},{name:"dependency",number:3,type:9,label:3},{name:"public_dependency",number:10,type:5,label:3},{name:"weak_dependency",number:11,type:5,label:3},{name:"option_dependency",number:15,type:9,label:3},{name:"message_type",number:4,type:11,label:3,typeName:".google.protobuf.DescriptorProto"},{name:"enum_type",number:5,type:11,label:3,typeName:".google.protobuf.EnumDescriptorProto"},{name:"service",number:6,type:11,label:3,typeName:".google.protobuf.ServiceDescriptorProto"},{name:"extension",number:7,type:11,label:3,typeName:".google.protobuf.FieldDescriptorProto"},{name:"options",number:8,type:11,label:1,typeName:".google.protobuf.FileOptions"},{name:"source_code_info",number:9,type:11,label:1,typeName:".google.protobuf.SourceCodeInfo"},{name:"syntax",number:12,type:9,label:1},{name:"edition",number:14,type:14,label:1,typeName:".google.protobuf.Edition"}]},{name:"DescriptorProto",field:[{name:"name",number:1,type:9,label:1},{name:"field",number:2,type:11,label:3,typeName:".google.protobuf.FieldDescriptorProto"},{name:"extension",number:6,type:11,label:3,typeName:".google.protobuf.FieldDescriptorProto"},{name:"nested_type",number:3,type:11,label:3,typeName:".google.protobuf.DescriptorProto"},{name:"enum_type",number:4,type:11,label:3,typeName:".google.protobuf.EnumDescriptorProto"},{name:"extension_range",number:5,type:11,label:3,typeName:".google.protobuf.DescriptorProto.ExtensionRange"},{name:"oneof_decl",number:8,type:11,label:3,typeName:".google.protobuf.OneofDescriptorProto"},{name:"options",number:7,type:11,label:1,typeName:".google.protobuf.MessageOptions"},{name:"reserved_range",number:9,type:11,label:3,typeName:".google.protobuf.DescriptorProto.ReservedRange"},{name:"reserved_name",number:10,type:9,label:3},{name:"visibility",number:11,type:14,label:1,typeName:".google.protobuf.SymbolVisibility"}],nestedType:[{name:"ExtensionRange",field:[{name:"start",number:1,type:5,label:1},{name:"end",number:2,type:5,label:1},{name:"options",number:3,type:11,label:1,typeName:".google.protobuf.ExtensionRangeOptions"}]},{name:"ReservedRange",field:[{name:"start",number:1,type:5,label:1},{name:"end",number:2,type:5,label:1}]}]},{name:"ExtensionRangeOptions",field:[{name:"uninterpreted_option",number:999,type:11,label:3,typeName:".google.protobuf.UninterpretedOption"},{name:"declaration",number:2,type:11,label:3,typeName:".google.protobuf.ExtensionRangeOptions.Declaration",options:{retention:2}},{name:"features",number:50,type:11,label:1,typeName:".google.protobuf.FeatureSet"},{name:"verification",number:3,type:14,label:1,typeName:".google.protobuf.ExtensionRangeOptions.VerificationState",defaultValue:"UNVERIFIED",options:{retention:2}}],nestedType:[{name:"Declaration",field:[{name:"number",number:1,type:5,label:1},{name:"full_name",number:2,type:9,label:1},{name:"type",number:3,type:9,label:1},{name:"reserved",number:5,type:8,label:1},{name:"repeated",number:6,type:8,label:1}]}],enumType:[{name:"VerificationState",value:[{name:"DECLARATION",number:0},{name:"UNVERIFIED",number:1}]}],extensionRange:[{start:990,end:999},{start:1e3,end:536870912}]},{name:"FieldDescriptorProto",field:[{name:"name",number:1,type:9,label:1},{name:"number",number:3,type:5,label:1},{name:"label",number:4,type:14,label:1,typeName:".google.protobuf.FieldDescriptorProto.Label"},{name:"type",number:5,type:14,label:1,typeName:".google.protobuf.FieldDescriptorProto.Type"},{name:"type_name",number:6,type:9,label:1},{name:"extendee",number:2,type:9,label:1},{name:"default_value",number:7,type:9,label:1},{name:"oneof_index",number:9,type:5,label:1},{name:"json_name",number:10,type:9,label:1},{name:"options",number:8,type:11,label:1,typeName:".google.protobuf.FieldOptions"},{name:"proto3_optional",number:17,type:8,label:1}],enumType:[{name:"Type",value:[{name:"TYPE_DOUBLE",number:1},{name:"TYPE_FLOAT",number:2},{name:"TYPE_INT64",number:3},{name:"TYPE_UINT64",number:4},{name:"TYPE_INT32",number:5},{name:"TYPE_FIXED64",number:6},{name:"TYPE_FIXED32",number:7},{name:"TYPE_BOOL",number:8},{name:"TYPE_STRING",number:9},{name:"TYPE_GROUP",number:10},{name:"TYPE_MESSAGE",number:11},{name:"TYPE_BYTES",number:12},{name:"TYPE_UINT32",number:13},{name:"TYPE_ENUM",number:14},{name:"TYPE_SFIXED32",number:15},{name:"TYPE_SFIXED64",number:16},{name:"TYPE_SINT32",number:17},{name:"TYPE_SINT64",number:18}]},{name:"Label",value:[{name:"LABEL_OPTIONAL",number:1},{name:"LABEL_REPEATED",number:3},{name:"LABEL_REQUIRED",number:2}]}]},{name:"OneofDescriptorProto",field:[{name:"name",number:1,type:9,label:1},{name:"options",number:2,type:11,label:1,typeName:".google.protobuf.OneofOptions"}]},{name:"EnumDescriptorProto",field:[{name:"name",number:1,type:9,label:1},{name:"value",number:2,type:11,label:3,typeName:".google.protobuf.EnumValueDescriptorProto"},{name:"options",number:3,type:11,label:1,typeName:".google.protobuf.EnumOptions"},{name:"reserved_range",number:4,type:11,label:3,typeName:".google.protobuf.EnumDescriptorProto.EnumReservedRange"},{name:"reserved_name",number:5,type:9,label:3},{name:"visibility",number:6,type:14,label:1,typeName:".google.protobuf.SymbolVisibility"}],nestedType:[{name:"EnumReservedRange",field:[{name:"start",number:1,type:5,label:1},{name:"end",number:2,type:5,label:1}]}]},{name:"EnumValueDescriptorProto",field:[{name:"name",number:1,type:9,label:1},{name:"number",number:2,type:5,label:1},{name:"options",number:3,type:11,label:1,typeName:".google.protobuf.EnumValueOptions"}]},{name:"ServiceDescriptorProto",field:[{name:"name",number:1,type:9,label:1},{name:"method",number:2,type:11,label:3,typeName:".google.protobuf.MethodDescriptorProto"},{name:"options",number:3,type:11,label:1,typeName:".google.protobuf.ServiceOptions"}]},{name:"MethodDescriptorProto",field:[{name:"name",number:1,type:9,label:1},{name:"input_type",number:2,type:9,label:1},{name:"output_type",number:3,type:9,label:1},{name:"options",number:4,type:11,label:1,typeName:".google.protobuf.MethodOptions"},{name:"client_streaming",number:5,type:8,label:1,defaultValue:"false"},{name:"server_streaming",number:6,type:8,label:1,defaultValue:"false"}]},{name:"FileOptions",field:[{name:"java_package",number:1,type:9,label:1},{name:"java_outer_classname",number:8,type:9,label:1},{name:"java_multiple_files",number:10,type:8,label:1,defaultValue:"false",options:{}},{name:"java_generate_equals_and_hash",number:20,type:8,label:1,options:{deprecated:!0}},{name:"java_string_check_utf8",number:27,type:8,label:1,defaultValue:"false"},{name:"optimize_for",number:9,type:14,label:1,typeName:".google.protobuf.FileOptions.OptimizeMode",defaultValue:"SPEED"},{name:"go_package",number:11,type:9,label:1},{name:"cc_generic_services",number:16,type:8,label:1,defaultValue:"false"},{name:"java_generic_services",number:17,type:8,label:1,defaultValue:"false"},{name:"py_generic_services",number:18,type:8,label:1,defaultValue:"false"},{name:"deprecated",number:23,type:8,label:1,defaultValue:"false"},{name:"cc_enable_arenas",number:31,type:8,label:1,defaultValue:"true",options:{}},{name:"objc_class_prefix",number:36,type:9,label:1},{name:"csharp_namespace",number:37,type:9,label:1},{name:"swift_prefix",number:39,type:9,label:1},{name:"php_class_prefix",number:40,type:9,label:1},{name:"php_namespace",number:41,type:9,label:1},{name:"php_metadata_namespace",number:44,type:9,label:1},{name:"ruby_package",number:45,type:9,label:1},{name:"features",number:50,type:11,label:1,typeName:".google.protobuf.FeatureSet"},{name:"uninterpreted_option",number:999,type:11,label:3,typeName:".google.protobuf.UninterpretedOption"}],enumType:[{name:"OptimizeMode",value:[{name:"SPEED",number:1},{name:"CODE_SIZE",number:2},{name:"LITE_RUNTIME",number:3}]}],extensionRange:[{start:990,end:999},{start:1e3,end:536870912}]},{name:"MessageOptions",field:[{name:"message_set_wire_format",number:1,type:8,label:1,defaultValue:"false"},{name:"no_standard_descriptor_accessor",number:2,type:8,label:1,defaultValue:"false"},{name:"deprecated",number:3,type:8,label:1,defaultValue:"false"},{name:"map_entry",number:7,type:8,label:1},{name:"deprecated_legacy_json_field_conflicts",number:11,type:8,label:1,options:{deprecated:!0}},{name:"features",number:12,type:11,label:1,typeName:".google.protobuf.FeatureSet"},{name:"uninterpreted_option",number:999,type:11,label:3,typeName:".google.protobuf.UninterpretedOption"}],extensionRange:[{start:990,end:999},{start:1e3,end:536870912}]},{name:"FieldOptions",field:[{name:"ctype",number:1,type:14,label:1,typeName:".google.protobuf.FieldOptions.CType",defaultValue:"STRING"},{name:"packed",number:2,type:8,label:1},{name:"jstype",number:6,type:14,label:1,typeName:".google.protobuf.FieldOptions.JSType",defaultValue:"JS_NORMAL"},{name:"lazy",number:5,type:8,label:1,defaultValue:"false"},{name:"unverified_lazy",number:15,type:8,label:1,defaultValue:"false"},{name:"deprecated",number:3,type:8,label:1,defaultValue:"false"},{name:"weak",number:10,type:8,label:1,defaultValue:"false",options:{deprecated:!0}},{name:"debug_redact",number:16,type:8,label:1,defaultValue:"false"},{name:"retention",number:17,type:14,label:1,typeName:".google.protobuf.FieldOptions.OptionRetention"},{name:"targets",number:19,type:14,label:3,typeName:".google.protobuf.FieldOptions.OptionTargetType"},{name:"edition_defaults",number:20,type:11,label:3,typeName:".google.protobuf.FieldOptions.EditionDefault"},{name:"features",number:21,type:11,label:1,typeName:".google.protobuf.FeatureSet"},{name:"feature_support",number:22,type:11,label:1,typeName:".google.protobuf.FieldOptions.FeatureSupport"},{name:"uninterpreted_option",number:999,type:11,label:3,typeName:".google.protobuf.UninterpretedOption"}],nestedType:[{name:"EditionDefault",field:[{name:"edition",number:3,type:14,label:1,typeName:".google.protobuf.Edition"},{name:"value",number:2,type:9,label:1}]},{name:"FeatureSupport",field:[{name:"edition_introduced",number:1,type:14,label:1,typeName:".google.protobuf.Edition"},{name:"edition_deprecated",number:2,type:14,label:1,typeName:".google.protobuf.Edition"},{name:"deprecation_warning",number:3,type:9,label:1},{name:"edition_removed",number:4,type:14,label:1,typeName:".google.protobuf.Edition"},{name:"removal_error",number:5,type:9,label:1}]}],enumType:[{name:"CType",value:[{name:"STRING",number:0},{name:"CORD",number:1},{name:"STRING_PIECE",number:2}]},{name:"JSType",value:[{name:"JS_NORMAL",number:0},{name:"JS_STRING",number:1},{name:"JS_NUMBER",number:2}]},{name:"OptionRetention",value:[{name:"RETENTION_UNKNOWN",number:0},{name:"RETENTION_RUNTIME",number:1},{name:"RETENTION_SOURCE",number:2}]},{name:"OptionTargetType",value:[{name:"TARGET_TYPE_UNKNOWN",number:0},{name:"TARGET_TYPE_FILE",number:1},{name:"TARGET_TYPE_EXTENSION_RANGE",number:2},{name:"TARGET_TYPE_MESSAGE",number:3},{name:"TARGET_TYPE_FIELD",number:4},{name:"TARGET_TYPE_ONEOF",number:5},{name:"TARGET_TYPE_ENUM",number:6},{name:"TARGET_TYPE_ENUM_ENTRY",number:7},{name:"TARGET_TYPE_SERVICE",number:8},{name:"TARGET_TYPE_METHOD",number:9}]}],extensionRange:[{start:990,end:999},{start:1e3,end:536870912}]},{name:"OneofOptions",field:[{name:"features",number:1,type:11,label:1,typeName:".google.protobuf.FeatureSet"},{name:"uninterpreted_option",number:999,type:11,label:3,typeName:".google.protobuf.UninterpretedOption"}],extensionRange:[{start:990,end:999},{start:1e3,end:536870912}]},{name:"EnumOptions",field:[{name:"allow_alias",number:2,type:8,label:1},{name:"deprecated",number:3,type:8,label:1,defaultValue:"false"},{name:"deprecated_legacy_json_field_conflicts",number:6,type:8,label:1,options:{deprecated:!0}},{name:"features",number:7,type:11,label:1,typeName:".google.protobuf.FeatureSet"},{name:"uninterpreted_option",number:999,type:11,label:3,typeName:".google.protobuf.UninterpretedOption"}],extensionRange:[{start:990,end:999},{start:1e3,end:536870912}]},{name:"EnumValueOptions",field:[{name:"deprecated",number:1,type:8,label:1,defaultValue:"false"},{name:"features",number:2,type:11,label:1,typeName:".google.protobuf.FeatureSet"},{name:"debug_redact",number:3,type:8,label:1,defaultValue:"false"},{name:"feature_support",number:4,type:11,label:1,typeName:".google.protobuf.FieldOptions.FeatureSupport"},{name:"uninterpreted_option",number:999,type:11,label:3,typeName:".google.protobuf.UninterpretedOption"}],extensionRange:[{start:990,end:999},{start:1e3,end:536870912}]},{name:"ServiceOptions",field:[{name:"features",number:34,type:11,label:1,typeName:".google.protobuf.FeatureSet"},{name:"deprecated",number:33,type:8,label:1,defaultValue:"false"},{name:"uninterpreted_option",number:999,type:11,label:3,typeName:".google.protobuf.UninterpretedOption"}],extensionRange:[{start:990,end:999},{start:1e3,end:536870912}]},{name:"MethodOptions",field:[{name:"deprecated",number:33,type:8,label:1,defaultValue:"false"},{name:"idempotency_level",number:34,type:14,label:1,typeName:".google.protobuf.MethodOptions.IdempotencyLevel",defaultValue:"IDEMPOTENCY_UNKNOWN"},{name:"features",number:35,type:11,label:1,typeName:".google.protobuf.FeatureSet"},{name:"uninterpreted_option",number:999,type:11,label:3,typeName:".google.protobuf.UninterpretedOption"}],enumType:[{name:"IdempotencyLevel",value:[{name:"IDEMPOTENCY_UNKNOWN",number:0},{name:"NO_SIDE_EFFECTS",number:1},{name:"IDEMPOTENT",number:2}]}],extensionRange:[{start:990,end:999},{start:1e3,end:536870912}]},{name:"UninterpretedOption",field:[{name:"name",number:2,type:11,label:3,typeName:".google.protobuf.UninterpretedOption.NamePart"},{name:"identifier_value",number:3,type:9,label:1},{name:"positive_int_value",number:4,type:4,label:1},{name:"negative_int_value",number:5,type:3,label:1},{name:"double_value",number:6,type:1,label:1},{name:"string_value",number:7,type:12,label:1},{name:"aggregate_value",number:8,type:9,label:1}],nestedType:[{name:"NamePart",field:[{name:"name_part",number:1,type:9,label:2},{name:"is_extension",number:2,type:8,label:2}]}]},{name:"FeatureSet",field:[{name:"field_presence",number:1,type:14,label:1,typeName:".google.protobuf.FeatureSet.FieldPresence",options:{retention:1,targets:[4,1],editionDefaults:[{value:"EXPLICIT",edition:900},{value:"IMPLICIT",edition:999},{value:"EXPLICIT",edition:1e3}]}},{name:"enum_type",number:2,type:14,label:1,typeName:".google.protobuf.FeatureSet.EnumType",options:{retention:1,targets:[6,1],editionDefaults:[{value:"CLOSED",edition:900},{value:"OPEN",edition:999}]}},{name:"repeated_field_encoding",number:3,type:14,label:1,typeName:".google.protobuf.FeatureSet.RepeatedFieldEncoding",options:{retention:1,targets:[4,1],editionDefaults:[{value:"EXPANDED",edition:900},{value:"PACKED",edition:999}]}},{name:"utf8_validation",number:4,type:14,label:1,typeName:".google.protobuf.FeatureSet.Utf8Validation",options:{retention:1,targets:[4,1],editionDefaults:[{value:"NONE",edition:900},{value:"VERIFY",edition:999}]}},{name:"message_encoding",number:5,type:14,label:1,typeName:".google.protobuf.FeatureSet.MessageEncoding",options:{retention:1,targets:[4,1],editionDefaults:[{value:"LENGTH_PREFIXED",edition:900}]}},{name:"json_format",number:6,type:14,label:1,typeName:".google.protobuf.FeatureSet.JsonFormat",options:{retention:1,targets:[3,6,1],editionDefaults:[{value:"LEGACY_BEST_EFFORT",edition:900},{value:"ALLOW",edition:999}]}},{name:"enforce_naming_style",number:7,type:14,label:1,typeName:".google.protobuf.FeatureSet.EnforceNamingStyle",options:{retention:2,targets:[1,2,3,4,5,6,7,8,9],editionDefaults:[{value:"STYLE_LEGACY",edition:900},{value:"STYLE2024",edition:1001},{value:"STYLE2026",edition:1002}]}},{name:"default_symbol_visibility",number:8,type:14,label:1,typeName:".google.protobuf.FeatureSet.VisibilityFeature.DefaultSymbolVisibility",options:{retention:2,targets:[1],editionDefaults:[{value:"EXPORT_ALL",edition:900},{value:"EXPORT_TOP_LEVEL",edition:1001},{value:"STRICT",edition:1002}]}},{name:"enforce_proto_limits",number:9,type:14,label:1,typeName:".google.protobuf.FeatureSet.ProtoLimitsFeature.EnforceProtoLimits",options:{retention:2,targets:[6,3,4,5],editionDefaults:[{value:"LEGACY_NO_EXPLICIT_LIMITS",edition:900},{value:"PROTO_LIMITS2026",edition:1002}]}}],nestedType:[{name:"VisibilityFeature",enumType:[{name:"DefaultSymbolVisibility",value:[{name:"DEFAULT_SYMBOL_VISIBILITY_UNKNOWN",number:0},{name:"EXPORT_ALL",number:1},{name:"EXPORT_TOP_LEVEL",number:2},{name:"LOCAL_ALL",number:3},{name:"STRICT",number:4}]}]},{name:"ProtoLimitsFeature",enumType:[{name:"EnforceProtoLimits",value:[{name:"PROTO_LIMITS_UNKNOWN",number:0},{name:"LEGACY_NO_EXPLICIT_LIMITS",number:1},{name:"PROTO_LIMITS2026",number:2}]}]}],enumType:[{name:"FieldPresence",value:[{name:"FIELD_PRESENCE_UNKNOWN",number:0},{name:"EXPLICIT",number:1},{name:"IMPLICIT",number:2},{name:"LEGACY_REQUIRED",number:3}]},{name:"EnumType",value:[{name:"ENUM_TYPE_UNKNOWN",number:0},{name:"OPEN",number:1},{name:"CLOSED",number:2}]},{name:"RepeatedFieldEncoding",value:[{name:"REPEATED_FIELD_ENCODING_UNKNOWN",number:0},{name:"PACKED",number:1},{name:"EXPANDED",number:2}]},{name:"Utf8Validation",value:[{name:"UTF8_VALIDATION_UNKNOWN",number:0},{name:"VERIFY",number:2},{name:"NONE",number:3}]},{name:"MessageEncoding",value:[{name:"MESSAGE_ENCODING_UNKNOWN",number:0},{name:"LENGTH_PREFIXED",number:1},{name:"DELIMITED",number:2}]},{name:"JsonFormat",value:[{name:"JSON_FORMAT_UNKNOWN",number:0},{name:"ALLOW",number:1},{name:"LEGACY_BEST_EFFORT",number:2}]},{name:"EnforceNamingStyle",value:[{name:"ENFORCE_NAMING_STYLE_UNKNOWN",number:0},{name:"STYLE2024",number:1},{name:"STYLE_LEGACY",number:2},{name:"STYLE2026",number:3}]}],extensionRange:[{start:1e3,end:9995},{start:9995,end:1e4},{start:1e4,end:10001}]},{name:"FeatureSetDefaults",field:[{name:"defaults",number:1,type:11,label:3,typeName:".google.protobuf.FeatureSetDefaults.FeatureSetEditionDefault"},{name:"minimum_edition",number:4,type:14,label:1,typeName:".google.protobuf.Edition"},{name:"maximum_edition",number:5,type:14,label:1,typeName:".google.protobuf.Edition"}],nestedType:[{name:"FeatureSetEditionDefault",field:[{name:"edition",number:3,type:14,label:1,typeName:".google.protobuf.Edition"},{name:"overridable_features",number:4,type:11,label:1,typeName:".google.protobuf.FeatureSet"},{name:"fixed_features",number:5,type:11,label:1,typeName:".google.protobuf.FeatureSet"}]}]},{name:"SourceCodeInfo",field:[{name:"location",number:1,type:11,label:3,typeName:".google.protobuf.SourceCodeInfo.Location"}],nestedType:[{name:"Location",field:[{name:"path",number:1,type:5,label:3,options:{packed:!0}},{name:"span",number:2,type:5,label:3,options:{packed:!0}},{name:"leading_comments",number:3,type:9,label:1},{name:"trailing_comments",number:4,type:9,label:1},{name:"leading_detached_comments",number:6,type:9,label:3}]}],extensionRange:[{start:536e6,end:536000001}]},{name:"GeneratedCodeInfo",field:[{name:"annotation",number:1,type:11,label:3,typeName:".google.protobuf.GeneratedCodeInfo.Annotation"}],nestedType:[{name:"Annotation",field:[{name:"path",number:1,type:5,label:3,options:{packed:!0}},{name:"source_file",number:2,type:9,label:1},{name:"begin",number:3,type:5,label:1},{name:"end",number:4,type:5,label:1},{name:"semantic",number:5,type:14,label:1,typeName:".google.protobuf.GeneratedCodeInfo.Annotation.Semantic"}],enumType:[{name:"Semantic",value:[{name:"NONE",number:0},{name:"SET",number:1},{name:"ALIAS",number:2}]}]}]}],enumType:[{name:"Edition",value:[{name:"EDITION_UNKNOWN",number:0},{name:"EDITION_LEGACY",number:900},{name:"EDITION_PROTO2",number:998},{name:"EDITION_PROTO3",number:999},{name:"EDITION_2023",number:1e3},{name:"EDITION_2024",number:1001},{name:"EDITION_2026",number:1002},{name:"EDITION_UNSTABLE",number:9999},{name:"EDITION_1_TEST_ONLY",number:1},{name:"EDITION_2_TEST_ONLY",number:2},{name:"EDITION_99997_TEST_ONLY",number:99997},{name:"EDITION_99998_TEST_ONLY",number:99998},{name:"EDITION_99999_TEST_ONLY",number:99999},{name:"EDITION_MAX",number:2147483647}]},{name:"SymbolVisibility",value:[{name:"VISIBILITY_UNSET",number:0},{name:"VISIBILITY_LOCAL",number:1},{name:"VISIBILITY_EXPORT",number:2}]}]});var Tr=A(P0,1);var or;(function(e){e[e.DECLARATION=0]="DECLARATION",e[e.UNVERIFIED=1]="UNVERIFIED"})(or||(or={}));var ur;(function(e){e[e.DOUBLE=1]="DOUBLE",e[e.FLOAT=2]="FLOAT",e[e.INT64=3]="INT64",e[e.UINT64=4]="UINT64",e[e.INT32=5]="INT32",e[e.FIXED64=6]="FIXED64",e[e.FIXED32=7]="FIXED32",e[e.BOOL=8]="BOOL",e[e.STRING=9]="STRING",e[e.GROUP=10]="GROUP",e[e.MESSAGE=11]="MESSAGE",e[e.BYTES=12]="BYTES",e[e.UINT32=13]="UINT32",e[e.ENUM=14]="ENUM",e[e.SFIXED32=15]="SFIXED32",e[e.SFIXED64=16]="SFIXED64",e[e.SINT32=17]="SINT32",e[e.SINT64=18]="SINT64"})(ur||(ur={}));var rr;(function(e){e[e.OPTIONAL=1]="OPTIONAL",e[e.REPEATED=3]="REPEATED",e[e.REQUIRED=2]="REQUIRED"})(rr||(rr={}));var sr;(function(e){e[e.SPEED=1]="SPEED",e[e.CODE_SIZE=2]="CODE_SIZE",e[e.LITE_RUNTIME=3]="LITE_RUNTIME"})(sr||(sr={}));var ar;(function(e){e[e.STRING=0]="STRING",e[e.CORD=1]="CORD",e[e.STRING_PIECE=2]="STRING_PIECE"})(ar||(ar={}));var ir;(function(e){e[e.JS_NORMAL=0]="JS_NORMAL",e[e.JS_STRING=1]="JS_STRING",e[e.JS_NUMBER=2]="JS_NUMBER"})(ir||(ir={}));var lr;(function(e){e[e.RETENTION_UNKNOWN=0]="RETENTION_UNKNOWN",e[e.RETENTION_RUNTIME=1]="RETENTION_RUNTIME",e[e.RETENTION_SOURCE=2]="RETENTION_SOURCE"})(lr||(lr={}));var cr;(function(e){e[e.TARGET_TYPE_UNKNOWN=0]="TARGET_TYPE_UNKNOWN",e[e.TARGET_TYPE_FILE=1]="TARGET_TYPE_FILE",e[e.TARGET_TYPE_EXTENSION_RANGE=2]="TARGET_TYPE_EXTENSION_RANGE",e[e.TARGET_TYPE_MESSAGE=3]="TARGET_TYPE_MESSAGE",e[e.TARGET_TYPE_FIELD=4]="TARGET_TYPE_FIELD",e[e.TARGET_TYPE_ONEOF=5]="TARGET_TYPE_ONEOF",e[e.TARGET_TYPE_ENUM=6]="TARGET_TYPE_ENUM",e[e.TARGET_TYPE_ENUM_ENTRY=7]="TARGET_TYPE_ENUM_ENTRY",e[e.TARGET_TYPE_SERVICE=8]="TARGET_TYPE_SERVICE",e[e.TARGET_TYPE_METHOD=9]="TARGET_TYPE_METHOD"})(cr||(cr={}));var pr;(function(e){e[e.IDEMPOTENCY_UNKNOWN=0]="IDEMPOTENCY_UNKNOWN",e[e.NO_SIDE_EFFECTS=1]="NO_SIDE_EFFECTS",e[e.IDEMPOTENT=2]="IDEMPOTENT"})(pr||(pr={}));var fr;(function(e){e[e.DEFAULT_SYMBOL_VISIBILITY_UNKNOWN=0]="DEFAULT_SYMBOL_VISIBILITY_UNKNOWN",e[e.EXPORT_ALL=1]="EXPORT_ALL",e[e.EXPORT_TOP_LEVEL=2]="EXPORT_TOP_LEVEL",e[e.LOCAL_ALL=3]="LOCAL_ALL",e[e.STRICT=4]="STRICT"})(fr||(fr={}));var mr;(function(e){e[e.PROTO_LIMITS_UNKNOWN=0]="PROTO_LIMITS_UNKNOWN",e[e.LEGACY_NO_EXPLICIT_LIMITS=1]="LEGACY_NO_EXPLICIT_LIMITS",e[e.PROTO_LIMITS2026=2]="PROTO_LIMITS2026"})(mr||(mr={}));var dr;(function(e){e[e.FIELD_PRESENCE_UNKNOWN=0]="FIELD_PRESENCE_UNKNOWN",e[e.EXPLICIT=1]="EXPLICIT",e[e.IMPLICIT=2]="IMPLICIT",e[e.LEGACY_REQUIRED=3]="LEGACY_REQUIRED"})(dr||(dr={}));var gr;(function(e){e[e.ENUM_TYPE_UNKNOWN=0]="ENUM_TYPE_UNKNOWN",e[e.OPEN=1]="OPEN",e[e.CLOSED=2]="CLOSED"})(gr||(gr={}));var br;(function(e){e[e.REPEATED_FIELD_ENCODING_UNKNOWN=0]="REPEATED_FIELD_ENCODING_UNKNOWN",e[e.PACKED=1]="PACKED",e[e.EXPANDED=2]="EXPANDED"})(br||(br={}));var hr;(function(e){e[e.UTF8_VALIDATION_UNKNOWN=0]="UTF8_VALIDATION_UNKNOWN",e[e.VERIFY=2]="VERIFY",e[e.NONE=3]="NONE"})(hr||(hr={}));var _r;(function(e){e[e.MESSAGE_ENCODING_UNKNOWN=0]="MESSAGE_ENCODING_UNKNOWN",e[e.LENGTH_PREFIXED=1]="LENGTH_PREFIXED",e[e.DELIMITED=2]="DELIMITED"})(_r||(_r={}));var vr;(function(e){e[e.JSON_FORMAT_UNKNOWN=0]="JSON_FORMAT_UNKNOWN",e[e.ALLOW=1]="ALLOW",e[e.LEGACY_BEST_EFFORT=2]="LEGACY_BEST_EFFORT"})(vr||(vr={}));var yr;(function(e){e[e.ENFORCE_NAMING_STYLE_UNKNOWN=0]="ENFORCE_NAMING_STYLE_UNKNOWN",e[e.STYLE2024=1]="STYLE2024",e[e.STYLE_LEGACY=2]="STYLE_LEGACY",e[e.STYLE2026=3]="STYLE2026"})(yr||(yr={}));var Er;(function(e){e[e.NONE=0]="NONE",e[e.SET=1]="SET",e[e.ALIAS=2]="ALIAS"})(Er||(Er={}));var Sr;(function(e){e[e.EDITION_UNKNOWN=0]="EDITION_UNKNOWN",e[e.EDITION_LEGACY=900]="EDITION_LEGACY",e[e.EDITION_PROTO2=998]="EDITION_PROTO2",e[e.EDITION_PROTO3=999]="EDITION_PROTO3",e[e.EDITION_2023=1e3]="EDITION_2023",e[e.EDITION_2024=1001]="EDITION_2024",e[e.EDITION_2026=1002]="EDITION_2026",e[e.EDITION_UNSTABLE=9999]="EDITION_UNSTABLE",e[e.EDITION_1_TEST_ONLY=1]="EDITION_1_TEST_ONLY",e[e.EDITION_2_TEST_ONLY=2]="EDITION_2_TEST_ONLY",e[e.EDITION_99997_TEST_ONLY=99997]="EDITION_99997_TEST_ONLY",e[e.EDITION_99998_TEST_ONLY=99998]="EDITION_99998_TEST_ONLY",e[e.EDITION_99999_TEST_ONLY=99999]="EDITION_99999_TEST_ONLY",e[e.EDITION_MAX=2147483647]="EDITION_MAX"})(Sr||(Sr={}));var Nr;(function(e){e[e.VISIBILITY_UNSET=0]="VISIBILITY_UNSET",e[e.VISIBILITY_LOCAL=1]="VISIBILITY_LOCAL",e[e.VISIBILITY_EXPORT=2]="VISIBILITY_EXPORT"})(Nr||(Nr={}));function A0(e){return Object.assign(Object.assign({readUnknownFields:!0,recursionLimit:100},e),{depth:0})}function J(e,t,n){let o=O(e);return L0(e).read(o,new oe(t),A0(n),t.byteLength),o}var Ir=new WeakMap;function L0(e){let t=Ir.get(e);return t===void 0&&(t=ki(e)),t}function ki(e){let t=String(e),n=new Map,o={read:Gi(t,n),readGroup:Ui(t,n)};Ir.set(e,o);for(let u of e.fields)n.set(u.number,Rr(u));return o}function Gi(e,t){return(n,o,u,r)=>{var s;if(++u.depth>u.recursionLimit)throw new Error(`cannot decode ${e} from binary: maximum recursion depth of ${u.recursionLimit} reached`);let a=o.pos+r,i=(s=n.$unknown)!==null&&s!==void 0?s:[];for(;o.pos<a;){let[l,p]=o.tag(),d=t.get(l);if(d===void 0){let g=o.skip(p,l,u.recursionLimit-u.depth);u.readUnknownFields&&i.push({no:l,wireType:p,data:g});continue}d(n,o,u,p)}i.length>0&&(n.$unknown=i),u.depth--}}function Ui(e,t){return(n,o,u,r)=>{var s;if(++u.depth>u.recursionLimit)throw new Error(`cannot decode ${e} from binary: maximum recursion depth of ${u.recursionLimit} reached`);let a,i,l=(s=n.$unknown)!==null&&s!==void 0?s:[];for(;o.pos<o.len&&([a,i]=o.tag(),i!=C.EndGroup);){let p=t.get(a);if(p===void 0){let d=o.skip(i,a,u.recursionLimit-u.depth);u.readUnknownFields&&l.push({no:a,wireType:i,data:d});continue}p(n,o,u,i)}if(i!=C.EndGroup||a!==r)throw new Error("invalid end group tag");l.length>0&&(n.$unknown=l),u.depth--}}function xr(e,t,n,o,u){Rr(n)(e[G],t,u,o)}function Rr(e){switch(e.fieldKind){case"scalar":return Fi(e);case"enum":return Vi(e);case"message":return $i(e);case"list":return Bi(e);case"map":return qi(e)}}function Fi(e){let t=tn(e.scalar,e.utf8Validation,e.longAsString),n=e.localName;if(e.oneof){let o=e.oneof.localName;return(u,r)=>{u[o]={case:n,value:t(r)}}}return(o,u)=>{o[n]=t(u)}}function Vi(e){var t;let n=e.localName,o=(t=e.oneof)===null||t===void 0?void 0:t.localName;if(e.enum.open)return o!==void 0?(s,a)=>{s[o]={case:n,value:a.int32()}}:(s,a)=>{s[n]=a.int32()};let u=e.enum.values,r=e.number;return(s,a,i,l)=>{var p;let d=a.int32();if(u.some(g=>g.number===d))o!==void 0?s[o]={case:n,value:d}:s[n]=d;else if(i.readUnknownFields){let g=[];su(d,g);let c=(p=s.$unknown)!==null&&p!==void 0?p:[];c.push({no:r,wireType:l,data:new Uint8Array(g)}),s.$unknown=c}}}function $i(e){let t=e.localName,{toMessage:n,toLocal:o}=V(e),u=wr(e);if(e.oneof){let r=e.oneof.localName;return(s,a,i)=>{let l=s[r],p=n(l.case===t?l.value:void 0);u(p,a,i),s[r]={case:t,value:o(p)}}}return(r,s,a)=>{let i=n(r[t]);u(i,s,a),r[t]=o(i)}}function wr(e){let t=L0(e.message);if(e.delimitedEncoding){let n=e.number;return(o,u,r)=>t.readGroup(o,u,r,n)}return(n,o,u)=>t.read(n,o,u,o.uint32())}function Bi(e){let t=e.localName;if(e.listKind=="message"){let{toMessage:s,toLocal:a}=V(e),i=wr(e);return(l,p,d)=>{let g=s(void 0);i(g,p,d),l[t].push(a(g))}}let n=e.listKind=="enum"?f.INT32:e.scalar,o=e.listKind=="scalar"?e.longAsString:!1,u=tn(n,e.utf8Validation,o),r=n!=f.STRING&&n!=f.BYTES;return(s,a,i,l)=>{let p=s[t];if(l==C.LengthDelimited&&r){let d=a.uint32()+a.pos;for(;a.pos<d;)p.push(u(a))}else p.push(u(a))}}function qi(e){let t=e.localName,n=tn(e.mapKey,e.utf8Validation,!1),o=F(e.mapKey,!1),u,r;switch(e.mapKind){case"scalar":{let s=e.scalar,a=tn(s,e.utf8Validation,!1);if(u=i=>a(i),s==f.BYTES)r=()=>new Uint8Array(0);else{let i=F(s,!1);r=()=>i}break}case"enum":{let s=e.enum.values[0].number;u=a=>a.int32(),r=()=>s;break}case"message":{let{toMessage:s,toLocal:a}=V(e),i=L0(e.message).read;u=(l,p,d)=>{let g=s(d);return i(g,l,p,l.uint32()),a(g)},r=()=>a(s(void 0));break}}return(s,a,i)=>{let l=s[t],p,d,g=a.uint32(),c=a.pos+g;for(;a.pos<c;){let[m,h]=a.tag();switch(m){case 1:p=n(a);break;case 2:d=u(a,i,d);break;default:a.skip(h,m,i.recursionLimit-i.depth)}}p===void 0&&(p=o),d===void 0&&(d=r()),U(l,p,d)}}function tn(e,t,n){switch(e){case f.STRING:return o=>o.string(t);case f.BOOL:return o=>o.bool();case f.DOUBLE:return o=>o.double();case f.FLOAT:return o=>o.float();case f.INT32:return o=>o.int32();case f.INT64:return n?o=>String(o.int64()):o=>o.int64();case f.UINT64:return n?o=>String(o.uint64()):o=>o.uint64();case f.FIXED64:return n?o=>String(o.fixed64()):o=>o.fixed64();case f.BYTES:return o=>o.bytes();case f.FIXED32:return o=>o.fixed32();case f.SFIXED32:return o=>o.sfixed32();case f.SFIXED64:return n?o=>String(o.sfixed64()):o=>o.sfixed64();case f.SINT64:return n?o=>String(o.sint64()):o=>o.sint64();case f.UINT32:return o=>o.uint32();case f.SINT32:return o=>o.sint32()}}function w(e,t){var n;let o=J(Tr,Ue(e));return o.messageType.forEach(mt),o.dependency=(n=t?.map(r=>r.proto.name))!==null&&n!==void 0?n:[],Qt(o,r=>t?.find(s=>s.proto.name===r)).getFile(o.name)}var q=w("Ch9nb29nbGUvcHJvdG9idWYvdGltZXN0YW1wLnByb3RvEg9nb29nbGUucHJvdG9idWYiKwoJVGltZXN0YW1wEg8KB3NlY29uZHMYASABKAMSDQoFbmFub3MYAiABKAVChQEKE2NvbS5nb29nbGUucHJvdG9idWZCDlRpbWVzdGFtcFByb3RvUAFaMmdvb2dsZS5nb2xhbmcub3JnL3Byb3RvYnVmL3R5cGVzL2tub3duL3RpbWVzdGFtcHBi+AEBogIDR1BCqgIeR29vZ2xlLlByb3RvYnVmLldlbGxLbm93blR5cGVzYgZwcm90bzM"),n1=A(q,0);var Ve=w("Ch5nb29nbGUvcHJvdG9idWYvZHVyYXRpb24ucHJvdG8SD2dvb2dsZS5wcm90b2J1ZiIqCghEdXJhdGlvbhIPCgdzZWNvbmRzGAEgASgDEg0KBW5hbm9zGAIgASgFQoMBChNjb20uZ29vZ2xlLnByb3RvYnVmQg1EdXJhdGlvblByb3RvUAFaMWdvb2dsZS5nb2xhbmcub3JnL3Byb3RvYnVmL3R5cGVzL2tub3duL2R1cmF0aW9ucGL4AQGiAgNHUEKqAh5Hb29nbGUuUHJvdG9idWYuV2VsbEtub3duVHlwZXNiBnByb3RvMw");var D0=w("Chlnb29nbGUvcHJvdG9idWYvYW55LnByb3RvEg9nb29nbGUucHJvdG9idWYiJgoDQW55EhAKCHR5cGVfdXJsGAEgASgJEg0KBXZhbHVlGAIgASgMQnYKE2NvbS5nb29nbGUucHJvdG9idWZCCEFueVByb3RvUAFaLGdvb2dsZS5nb2xhbmcub3JnL3Byb3RvYnVmL3R5cGVzL2tub3duL2FueXBiogIDR1BCqgIeR29vZ2xlLlByb3RvYnVmLldlbGxLbm93blR5cGVzYgZwcm90bzM"),Cr=A(D0,0);var Wi=2,Hi=3,Or={writeUnknownFields:!0};function Ki(e){return e?Object.assign(Object.assign({},Or),e):Or}function $e(e,t,n){let o=new ke;return M0(e)(o,Ki(n),t),o.finish()}var Pr=new WeakMap;function M0(e){let t=Pr.get(e);return t===void 0&&(t=Yi(e)),t}function Yi(e){let t=e.typeName,n=e.fields.concat().sort((s,a)=>s.number-a.number),o=n[0],u=[],r=(s,a,i)=>{if(i.$typeName!==t&&o!==void 0)throw new I(o,`cannot use ${o} with message ${i.$typeName}`,"ForeignFieldError");for(let p=0;p<u.length;p++)u[p](s,a,i);let l=i.$unknown;if(l!==void 0&&a.writeUnknownFields)for(let p=0;p<l.length;p++){let{no:d,wireType:g,data:c}=l[p];s.tag(d,g).raw(c)}};Pr.set(e,r);for(let s of n)u.push(Ar(s));return r}function Ar(e){switch(e.fieldKind){case"message":case"scalar":case"enum":return ji(e);case"list":return Xi(e);case"map":return zi(e)}}function ji(e){let t=Ji(e),n=e.localName;if(e.oneof){let o=e.oneof.localName;return(u,r,s)=>{let a=s[o];a.case===n&&t(u,r,a.value)}}if(e.presence!=Wi){let o=e.presence==Hi?`cannot encode ${e} to binary: required field not set`:void 0;return(u,r,s)=>{let a=s[n];if(a!==void 0&&Object.prototype.hasOwnProperty.call(s,n))t(u,r,a);else if(o!==void 0)throw new Error(o)}}if(e.fieldKind=="enum"){let o=e.enum.values[0].number;return(u,r,s)=>{let a=s[n];a!==o&&t(u,r,a)}}switch(e.scalar){case f.BOOL:return(o,u,r)=>{let s=r[n];s!==!1&&t(o,u,s)};case f.STRING:return(o,u,r)=>{let s=r[n];s!==""&&t(o,u,s)};case f.BYTES:return(o,u,r)=>{let s=r[n];(!(s instanceof Uint8Array)||s.byteLength>0)&&t(o,u,s)};case f.DOUBLE:case f.FLOAT:return(o,u,r)=>{let s=r[n];Object.is(s,0)||t(o,u,s)};default:return(o,u,r)=>{let s=r[n];s!=0&&t(o,u,s)}}}function Ji(e){switch(e.fieldKind){case"message":{let{toMessage:t}=V(e),n=Dr(e);return(o,u,r)=>{n(o,u,t(r))}}case"scalar":case"enum":{let t=e.fieldKind=="enum"?f.INT32:e.scalar,n=e.number,o=on(t),u=nn(t,e.parent.typeName,e.name);return(r,s,a)=>{r.tag(n,o),u(r,a)}}}}function Xi(e){let t=e.localName,n=e.number;switch(e.listKind){case"message":{let{toMessage:o}=V(e),u=Dr(e);return(r,s,a)=>{let i=a[t];for(let l=0;l<i.length;l++)u(r,s,o(i[l]))}}case"scalar":case"enum":{let o=e.listKind=="enum"?f.INT32:e.scalar,u=nn(o,e.parent.typeName,e.name);if(e.packed)return(s,a,i)=>{let l=i[t];if(l.length!=0){s.tag(n,C.LengthDelimited).fork();for(let p=0;p<l.length;p++)u(s,l[p]);s.join()}};let r=on(o);return(s,a,i)=>{let l=i[t];for(let p=0;p<l.length;p++)s.tag(n,r),u(s,l[p])}}}}function zi(e){let t=e.localName,n=e.number,o=Zi(e);if(e.mapKind=="message"){let{toMessage:a}=V(e),i=M0(e.message);return(l,p,d)=>{let g=d[t],c=Object.keys(g);for(let m=0;m<c.length;m++){let h=c[m];l.tag(n,C.LengthDelimited).fork(),o(l,h),l.tag(2,C.LengthDelimited).fork(),i(l,p,a(g[h])),l.join(),l.join()}}}let u=e.mapKind=="enum"?f.INT32:e.scalar,r=on(u),s=nn(u,e.parent.typeName,e.name);return(a,i,l)=>{let p=l[t],d=Object.keys(p);for(let g=0;g<d.length;g++){let c=d[g];a.tag(n,C.LengthDelimited).fork(),o(a,c),a.tag(2,r),s(a,p[c]),a.join()}}}function Zi(e){let t=on(e.mapKey),n=nn(e.mapKey,e.parent.typeName,e.name),o=Qi(e.mapKey);return(u,r)=>{u.tag(1,t),n(u,o(r))}}function Qi(e){switch(e){case f.STRING:return t=>t;case f.BOOL:return t=>t==="true"?!0:t==="false"?!1:t;case f.UINT64:case f.FIXED64:return t=>{try{return T.uParse(t)}catch{return t}};case f.INT64:case f.SFIXED64:case f.SINT64:return t=>{try{return T.parse(t)}catch{return t}};default:return t=>{let n=Number.parseInt(t);return Number.isFinite(n)?n:t}}}function nn(e,t,n){let o=el(e);return(u,r)=>{try{o(u,r)}catch(s){throw s instanceof Error?new Error(`cannot encode field ${t}.${n} to binary: ${s.message}`):s}}}function el(e){switch(e){case f.STRING:return(t,n)=>t.string(n);case f.BOOL:return(t,n)=>t.bool(n);case f.DOUBLE:return(t,n)=>t.double(n);case f.FLOAT:return(t,n)=>t.float(n);case f.INT32:return(t,n)=>t.int32(n);case f.INT64:return(t,n)=>t.int64(n);case f.UINT64:return(t,n)=>t.uint64(n);case f.FIXED64:return(t,n)=>t.fixed64(n);case f.BYTES:return(t,n)=>t.bytes(n);case f.FIXED32:return(t,n)=>t.fixed32(n);case f.SFIXED32:return(t,n)=>t.sfixed32(n);case f.SFIXED64:return(t,n)=>t.sfixed64(n);case f.SINT64:return(t,n)=>t.sint64(n);case f.UINT32:return(t,n)=>t.uint32(n);case f.SINT32:return(t,n)=>t.sint32(n)}}function Lr(e,t,n,o){Ar(o)(e,t,n[G])}function Dr(e){let t=e.number,n=M0(e.message);return e.delimitedEncoding?(o,u,r)=>{o.tag(t,C.StartGroup),n(o,u,r),o.tag(t,C.EndGroup)}:(o,u,r)=>{o.tag(t,C.LengthDelimited).fork(),n(o,u,r),o.join()}}function on(e){switch(e){case f.BYTES:case f.STRING:return C.LengthDelimited;case f.DOUBLE:case f.FIXED64:case f.SFIXED64:return C.Bit64;case f.FIXED32:case f.SFIXED32:case f.FLOAT:return C.Bit32;default:return C.Varint}}function Mr(e,t,n){let o=!1;return n||(n=O(Cr),o=!0),n.value=$e(e,t),n.typeUrl=ol(t.$typeName),o?n:void 0}function nl(e,t){if(e.typeUrl==="")return!1;let n=typeof t=="string"?t:t.typeName,o=Gr(e.typeUrl);return n===o}function kr(e,t){if(e.typeUrl==="")return;let n=t.kind=="message"?t:t.getMessage(Gr(e.typeUrl));if(!(!n||!nl(e,n)))return J(n,e.value)}function ol(e){return`type.googleapis.com/${e}`}function Gr(e){let t=e.lastIndexOf("/"),n=t>=0?e.substring(t+1):e;if(!n.length)throw new Error(`invalid type url: ${e}`);return n}var X=w("Chxnb29nbGUvcHJvdG9idWYvc3RydWN0LnByb3RvEg9nb29nbGUucHJvdG9idWYihAEKBlN0cnVjdBIzCgZmaWVsZHMYASADKAsyIy5nb29nbGUucHJvdG9idWYuU3RydWN0LkZpZWxkc0VudHJ5GkUKC0ZpZWxkc0VudHJ5EgsKA2tleRgBIAEoCRIlCgV2YWx1ZRgCIAEoCzIWLmdvb2dsZS5wcm90b2J1Zi5WYWx1ZToCOAEi6gEKBVZhbHVlEjAKCm51bGxfdmFsdWUYASABKA4yGi5nb29nbGUucHJvdG9idWYuTnVsbFZhbHVlSAASFgoMbnVtYmVyX3ZhbHVlGAIgASgBSAASFgoMc3RyaW5nX3ZhbHVlGAMgASgJSAASFAoKYm9vbF92YWx1ZRgEIAEoCEgAEi8KDHN0cnVjdF92YWx1ZRgFIAEoCzIXLmdvb2dsZS5wcm90b2J1Zi5TdHJ1Y3RIABIwCgpsaXN0X3ZhbHVlGAYgASgLMhouZ29vZ2xlLnByb3RvYnVmLkxpc3RWYWx1ZUgAQgYKBGtpbmQiMwoJTGlzdFZhbHVlEiYKBnZhbHVlcxgBIAMoCzIWLmdvb2dsZS5wcm90b2J1Zi5WYWx1ZSobCglOdWxsVmFsdWUSDgoKTlVMTF9WQUxVRRAAQn8KE2NvbS5nb29nbGUucHJvdG9idWZCC1N0cnVjdFByb3RvUAFaL2dvb2dsZS5nb2xhbmcub3JnL3Byb3RvYnVmL3R5cGVzL2tub3duL3N0cnVjdHBi+AEBogIDR1BCqgIeR29vZ2xlLlByb3RvYnVmLldlbGxLbm93blR5cGVzYgZwcm90bzM"),Ur=A(X,0),k0=A(X,1),Fr=A(X,2),un;(function(e){e[e.NULL_VALUE=0]="NULL_VALUE"})(un||(un={}));function Vr(e,t,n){Br(t,e);let o=ul(e.$unknown,t),[u,r,s]=Be(t),a=A0(n);for(let i of o)xr(u,new oe(i.data),r,i.wireType,a);return s()}function $r(e,t,n){var o;Br(t,e);let u=((o=e.$unknown)!==null&&o!==void 0?o:[]).filter(l=>l.no!==t.number),[r,s]=Be(t,n),a=new ke;Lr(a,{writeUnknownFields:!0},r,s);let i=new oe(a.finish());for(;i.pos<i.len;){let[l,p]=i.tag(),d=i.skip(p,l);u.push({no:l,wireType:p,data:d})}e.$unknown=u}function ul(e,t){if(e===void 0)return[];if(t.fieldKind==="enum"||t.fieldKind==="scalar"){for(let n=e.length-1;n>=0;--n)if(e[n].no==t.number)return[e[n]];return[]}return e.filter(n=>n.no===t.number)}function Be(e,t){let n=e.typeName,o=Object.assign(Object.assign({},e),{kind:"field",parent:e.extendee,localName:n}),u=Object.assign(Object.assign({},e.extendee),{fields:[o],members:[o],oneofs:[]}),r=O(u,t!==void 0?{[n]:t}:void 0);return[Fu(u,r),o,()=>{let s=r[n];if(s===void 0){let a=e.message;return B(a)?F(a.fields[0].scalar,a.fields[0].longAsString):O(a)}return s}]}function Br(e,t){if(e.extendee.typeName!=t.$typeName)throw new Error(`extension ${e.typeName} can only be applied to message ${e.extendee.typeName}`)}var rn=Date.parse("0001-01-01T00:00:00Z"),sn=Date.parse("9999-12-31T23:59:59Z"),an=-315576e6,ln=315576e6;var rl=3,sl=2,qr={alwaysEmitImplicit:!1,enumAsInteger:!1,useProtoFieldName:!1};function al(e){return e?Object.assign(Object.assign({},qr),e):qr}function il(e,t,n){return cn(e)(al(n),t)}function Hr(e,t,n){var o;let u=il(e,t,n);return JSON.stringify(u,null,(o=n?.prettySpaces)!==null&&o!==void 0?o:0)}var G0=new WeakMap;function cn(e){let t=G0.get(e);return t===void 0&&(t=ll(e)),t}function ll(e){let t=e.typeName,n=pl(e);if(n!==void 0){let a=e.fields[0],i=(l,p)=>{if(p.$typeName!==t&&a!==void 0)throw new I(a,`cannot use ${a} with message ${p.$typeName}`,"ForeignFieldError");return n(l,p)};return G0.set(e,i),i}let o=e.fields.concat().sort((a,i)=>a.number-i.number),u=o[0],r=[],s=(a,i)=>{if(i.$typeName!==t&&u!==void 0)throw new I(u,`cannot use ${u} with message ${i.$typeName}`,"ForeignFieldError");let l={};for(let p=0;p<r.length;p++)r[p](a,i,l);return a.registry&&hl(l,a,a.registry,i,e),l};G0.set(e,s);for(let a of o){let i=fl(a);r.push(a.jsonName==="__proto__"||a.name==="__proto__"?cl(i):i)}return s}function cl(e){return(t,n,o)=>{let u=Object.create(null);e(t,n,u);for(let r of Object.keys(u))U(o,r,u[r])}}function pl(e){if(e.typeName.startsWith("google.protobuf."))switch(e.typeName){case"google.protobuf.Any":return(t,n)=>_l(n,t);case"google.protobuf.Timestamp":return(t,n)=>El(n);case"google.protobuf.Duration":return(t,n)=>vl(n);case"google.protobuf.FieldMask":return(t,n)=>yl(n);case"google.protobuf.Struct":return(t,n)=>Jr(n);case"google.protobuf.Value":return(t,n)=>V0(n);case"google.protobuf.ListValue":return(t,n)=>Xr(n);default:if(B(e)){let t=e.fields[0],n=t.localName,o=F(t.scalar,!1),u=pn(t);return(r,s)=>{let a=s[n];return u(r,a===void 0?o:a)}}return}}function fl(e){switch(e.fieldKind){case"scalar":case"enum":case"message":return ml(e);case"list":case"map":{let t=e.fieldKind=="list"?Yr(e):jr(e),n=e.name,o=e.jsonName,u=e.localName;return(r,s,a)=>{let i=t(r,s[u]);i!==void 0&&(a[r.useProtoFieldName?n:o]=i)}}}}function ml(e){let t=Kr(e),n=e.name,o=e.jsonName,u=e.localName;if(e.oneof){let r=e.oneof.localName;return(s,a,i)=>{let l=a[r];l.case===u&&(i[s.useProtoFieldName?n:o]=t(s,l.value))}}if(e.presence!=sl){let r=e.presence==rl?`cannot encode ${e} to JSON: required field not set`:void 0;return(s,a,i)=>{let l=a[u];if(l!==void 0&&Object.prototype.hasOwnProperty.call(a,u))i[s.useProtoFieldName?n:o]=t(s,l);else if(r!==void 0)throw new Error(r)}}if(e.fieldKind=="enum"){let r=e.enum.values[0].number;return(s,a,i)=>{let l=a[u];(l!==r||s.alwaysEmitImplicit)&&(i[s.useProtoFieldName?n:o]=t(s,l))}}switch(e.scalar){case f.BOOL:return(r,s,a)=>{let i=s[u];(i!==!1||r.alwaysEmitImplicit)&&(a[r.useProtoFieldName?n:o]=t(r,i))};case f.STRING:return(r,s,a)=>{let i=s[u];(i!==""||r.alwaysEmitImplicit)&&(a[r.useProtoFieldName?n:o]=t(r,i))};case f.BYTES:return(r,s,a)=>{let i=s[u];(!(i instanceof Uint8Array)||i.byteLength>0||r.alwaysEmitImplicit)&&(a[r.useProtoFieldName?n:o]=t(r,i))};case f.DOUBLE:case f.FLOAT:return(r,s,a)=>{let i=s[u];(!Object.is(i,0)||r.alwaysEmitImplicit)&&(a[r.useProtoFieldName?n:o]=t(r,i))};default:return(r,s,a)=>{let i=s[u];(i!=0||r.alwaysEmitImplicit)&&(a[r.useProtoFieldName?n:o]=t(r,i))}}}function dl(e){switch(e.fieldKind){case"scalar":case"enum":case"message":return Kr(e);case"list":return Yr(e);case"map":return jr(e)}}function Kr(e){switch(e.fieldKind){case"scalar":return pn(e);case"enum":return F0(e);case"message":return U0(e)}}function U0(e){let{toMessage:t}=V(e),n=cn(e.message);return(o,u)=>n(o,t(u))}function Yr(e){let t=gl(e);return(n,o)=>{let u=o;if(u.length==0&&!n.alwaysEmitImplicit)return;let r=[];for(let s=0;s<u.length;s++)r.push(t(n,u[s]));return r}}function gl(e){switch(e.listKind){case"scalar":return pn(e);case"enum":return F0(e);case"message":return U0(e)}}function jr(e){let t=bl(e);return(n,o)=>{let u=o,r=Object.keys(u);if(r.length==0&&!n.alwaysEmitImplicit)return;let s={};for(let a=0;a<r.length;a++){let i=r[a];U(s,i,t(n,u[i]))}return s}}function bl(e){switch(e.mapKind){case"scalar":return pn(e);case"enum":return F0(e);case"message":return U0(e)}}function F0(e){let t=e.enum;return t.typeName=="google.protobuf.NullValue"?(n,o)=>{if(typeof o!="number")throw Wr(t,o);return null}:(n,o)=>{var u,r;if(typeof o!="number")throw Wr(t,o);return n.enumAsInteger?o:(r=(u=t.value[o])===null||u===void 0?void 0:u.jsonName)!==null&&r!==void 0?r:o}}function Wr(e,t){return new Error(`cannot encode ${e} to JSON: expected number, got ${D(t)}`)}function pn(e){switch(e.scalar){case f.INT32:case f.SFIXED32:case f.SINT32:case f.FIXED32:case f.UINT32:return(t,n)=>{if(typeof n!="number")throw qe(e,n);return n};case f.FLOAT:case f.DOUBLE:return(t,n)=>{if(typeof n!="number")throw qe(e,n);return Number.isNaN(n)?"NaN":n===Number.POSITIVE_INFINITY?"Infinity":n===Number.NEGATIVE_INFINITY?"-Infinity":n};case f.STRING:return(t,n)=>{if(typeof n!="string")throw qe(e,n);return n};case f.BOOL:return(t,n)=>{if(typeof n!="boolean")throw qe(e,n);return n};case f.UINT64:case f.FIXED64:case f.INT64:case f.SFIXED64:case f.SINT64:return(t,n)=>{if(typeof n=="bigint"||typeof n=="string"||typeof n=="number"&&Number.isInteger(n))return n.toString();throw qe(e,n)};case f.BYTES:return(t,n)=>{if(n instanceof Uint8Array)return I0(n);throw qe(e,n)}}}function qe(e,t){var n;return new Error(`cannot encode ${e} to JSON: ${(n=Ht(e,t))===null||n===void 0?void 0:n.message}`)}function hl(e,t,n,o,u){let r=o.$unknown;if(r===void 0)return;let s=new Set;for(let a=0;a<r.length;a++){let{no:i}=r[a];if(!s.has(i)){s.add(i);let l=n.getExtensionFor(u,i);if(!l)continue;let p=Vr(o,l),[d,g]=Be(l,p),c=d[G],m=dl(g)(t,c[g.localName]);m!==void 0&&(e[l.jsonName]=m)}}}function _l(e,t){if(e.typeUrl==="")return{};let{registry:n}=t,o,u;if(n&&(o=kr(e,n),o&&(u=n.getMessage(o.$typeName))),!u||!o)throw new Error(`cannot encode message ${e.$typeName} to JSON: "${e.typeUrl}" is not in the type registry`);let r=qt(u)?{value:cn(u)(t,o)}:cn(u)(t,o);return r["@type"]=e.typeUrl,r}function vl(e){let t=Number(e.seconds),n=e.nanos;if(t>ln||t<an)throw new Error(`cannot encode message ${e.$typeName} to JSON: value out of range`);if(t>0&&n<0||t<0&&n>0)throw new Error(`cannot encode message ${e.$typeName} to JSON: nanos sign must match seconds sign`);let o=e.seconds.toString();if(n!==0){let u=Math.abs(n).toString();u="0".repeat(9-u.length)+u,u.substring(3)==="000000"?u=u.substring(0,3):u.substring(6)==="000"&&(u=u.substring(0,6)),o+="."+u,n<0&&t==0&&(o="-"+o)}return o+"s"}function yl(e){return e.paths.map(t=>{if(zt(ce(t))!==t)throw new Error(`cannot encode message ${e.$typeName} to JSON: lowerCamelCase of path name "${t}" is irreversible`);return ce(t)}).join(",")}function Jr(e){let t={},n=Object.keys(e.fields);for(let o=0;o<n.length;o++){let u=n[o];U(t,u,V0(e.fields[u]))}return t}function V0(e){switch(e.kind.case){case"nullValue":return null;case"numberValue":if(!Number.isFinite(e.kind.value))throw new Error(`${e.$typeName} cannot be NaN or Infinity`);return e.kind.value;case"boolValue":return e.kind.value;case"stringValue":return e.kind.value;case"structValue":return Jr(e.kind.value);case"listValue":return Xr(e.kind.value);default:throw new Error(`${e.$typeName} must have a value`)}}function Xr(e){return e.values.map(V0)}function El(e){let t=Number(e.seconds)*1e3;if(t<rn||t>sn)throw new Error(`cannot encode message ${e.$typeName} to JSON: must be from 0001-01-01T00:00:00Z to 9999-12-31T23:59:59Z inclusive`);if(e.nanos<0)throw new Error(`cannot encode message ${e.$typeName} to JSON: nanos must not be negative`);if(e.nanos>999999999)throw new Error(`cannot encode message ${e.$typeName} to JSON: nanos must not be greater than 999999999`);let n="Z";if(e.nanos>0){let o=(e.nanos+1e9).toString().substring(1);o.substring(3)==="000000"?n="."+o.substring(0,3)+"Z":o.substring(6)==="000"?n="."+o.substring(0,6)+"Z":n="."+o+"Z"}return new Date(t).toISOString().replace(".000Z",n)}var Sl=2;function Nl(e){return Object.assign(Object.assign({ignoreUnknownFields:!1,recursionLimit:100},e),{depth:0})}function Zr(e,t,n){return Tl(e,Ml(t,e.typeName),n)}function Tl(e,t,n){let o=O(e);return Il(e,o,t,n),o}function Il(e,t,n,o){try{We(e)(t,n,Nl(o))}catch(u){throw xu(u)?new Error(`cannot decode ${u.field()} from JSON: ${u.message}`,{cause:u}):u}}var $0=new WeakMap;function We(e){let t=$0.get(e);return t===void 0&&(t=xl(e)),t}function xl(e){let t=String(e),n=Rl(e);if(n!==void 0){let s=(a,i,l)=>{if(++l.depth>l.recursionLimit)throw new Error(`cannot decode ${t} from JSON: maximum recursion depth of ${l.recursionLimit} reached`);n(a,i,l),l.depth--};return $0.set(e,s),s}let o=e.typeName,u=new Map,r=(s,a,i)=>{var l;if(++i.depth>i.recursionLimit)throw new Error(`cannot decode ${t} from JSON: maximum recursion depth of ${i.recursionLimit} reached`);if(a==null||Array.isArray(a)||typeof a!="object")throw new Error(`cannot decode ${t} from JSON: ${D(a)}`);let p=new Map,d=new Set,g=Object.keys(a);for(let c=0;c<g.length;c++){let m=g[c],h=a[m],b=u.get(m);if(b!==void 0){let _=b.field;if(d.has(_))throw new I(_,"set multiple times");if(d.add(_),b.oneofScalarNullSkip&&h===null)continue;if(b.oneof){let y=p.get(b.oneof);if(y!==void 0)throw new I(b.oneof,`oneof set multiple times by ${y.name} and ${_.name}`);p.set(b.oneof,_)}b.read(s,h,i)}else{let _=m.startsWith("[")&&m.endsWith("]")?(l=i.registry)===null||l===void 0?void 0:l.getExtension(m.substring(1,m.length-1)):void 0;if(_?.extendee.typeName==o){let[y,x,N]=Be(_);zr(x)(y[G],h,i),$r(s,_,N())}if(_===void 0&&!i.ignoreUnknownFields)throw new Error(`cannot decode ${t} from JSON: key "${m}" is unknown`)}}i.depth--};$0.set(e,r);for(let s of e.fields){let a={read:zr(s),field:s,oneof:s.oneof,oneofScalarNullSkip:s.oneof!==void 0&&s.fieldKind=="scalar"};u.set(s.name,a).set(s.jsonName,a)}return r}function Rl(e){if(e.typeName.startsWith("google.protobuf."))switch(e.typeName){case"google.protobuf.Any":return(t,n,o)=>Gl(t,n,o);case"google.protobuf.Timestamp":return(t,n)=>Ul(t,n);case"google.protobuf.Duration":return(t,n)=>Fl(t,n);case"google.protobuf.FieldMask":return(t,n)=>Vl(t,n);case"google.protobuf.Struct":return(t,n,o)=>ns(t,n,o);case"google.protobuf.Value":return(t,n,o)=>K0(t,n,o);case"google.protobuf.ListValue":return(t,n,o)=>os(t,n,o);default:if(B(e)){let t=e.fields[0],n=t.localName,o=t.scalar,u=t.longAsString,r=es(t);return(s,a)=>{a===null?s[n]=F(o,u):s[n]=r(a)}}return}}function zr(e){switch(e.fieldKind){case"scalar":return wl(e);case"enum":return Cl(e);case"message":return Ol(e);case"list":return Pl(e);case"map":return Ll(e)}}function wl(e){let t=es(e),n=e.localName;if(e.oneof){let u=e.oneof.localName;return(r,s)=>{r[u]={case:n,value:t(s)}}}let o=Qr(e);return(u,r)=>{r===null?o(u):u[n]=t(r)}}function Qr(e){let t=e.localName;if(e.presence!=Sl)return u=>{delete u[t]};if(e.fieldKind=="enum"){let u=e.enum.values[0].number;return r=>{r[t]=u}}let n=e.scalar,o=e.longAsString;return u=>{u[t]=F(n,o)}}function Cl(e){let t=B0(e.enum),n=q0(e.enum),o=e.localName,u=e.enum.typeName!="google.protobuf.NullValue";if(e.oneof){let s=e.oneof.localName;return(a,i,l)=>{if(i===null&&u){a[s].case===o&&(a[s]={case:void 0});return}let p=t(i,l.ignoreUnknownFields);if(p===He)return;let d=n(p);if(d!==!0)throw new I(e,K(e,p,d));a[s]={case:o,value:p}}}let r=Qr(e);return(s,a,i)=>{if(a===null&&u){r(s);return}let l=t(a,i.ignoreUnknownFields);if(l===He)return;let p=n(l);if(p!==!0)throw new I(e,K(e,l,p));s[o]=l}}function Ol(e){let t=e.localName,{toMessage:n,toLocal:o}=V(e),u=We(e.message),r=e.message.typeName!="google.protobuf.Value";if(e.oneof){let s=e.oneof.localName;return(a,i,l)=>{let p=a[s];if(i===null&&r){p.case===t&&(a[s]={case:void 0});return}let d=n(p.case===t?p.value:void 0);u(d,i,l),a[s]={case:t,value:o(d)}}}return(s,a,i)=>{if(a===null&&r){delete s[t];return}let l=n(s[t]);u(l,a,i),s[t]=o(l)}}function Pl(e){let t=e.localName,n=Al(e);return(o,u,r)=>{if(u===null)return;if(!Array.isArray(u))throw new I(e,"expected Array, got "+D(u));let s=o[t];for(let a=0;a<u.length;a++){let i=n(u[a],r,s.length);i!==He&&s.push(i)}}}function Al(e){switch(e.listKind){case"scalar":{let t=W0(e),n=le(e.scalar),o=H0(e);return(u,r,s)=>{if(u===null)throw new I(e,"list item must not be null");let a=t(u),i=n(a);if(i!==!0)throw new I(e,`list item #${s+1}: ${K(e,a,i)}`);return o(a)}}case"enum":{let t=B0(e.enum),n=q0(e.enum),o=e.enum.typeName!="google.protobuf.NullValue";return(u,r,s)=>{if(u===null&&o)throw new I(e,"list item must not be null");let a=t(u,r.ignoreUnknownFields);if(a===He)return a;let i=n(a);if(i!==!0)throw new I(e,`list item #${s+1}: ${K(e,a,i)}`);return a}}case"message":{let{toMessage:t,toLocal:n}=V(e),o=We(e.message),u=e.message.typeName!="google.protobuf.Value";return(r,s)=>{if(r===null&&u)throw new I(e,"list item must not be null");let a=t(void 0);return o(a,r,s),n(a)}}}}function Ll(e){let t=e.localName,n=e.mapKey,o=Dl(n),u=le(n),r,s,a=l=>l,i=!0;switch(e.mapKind){case"scalar":{r=W0(e),s=le(e.scalar),a=H0(e);break}case"enum":{let l=B0(e.enum);r=(p,d)=>l(p,d.ignoreUnknownFields),s=q0(e.enum),i=e.enum.typeName!="google.protobuf.NullValue";break}case"message":{let{toMessage:l,toLocal:p}=V(e),d=We(e.message);i=e.message.typeName!="google.protobuf.Value",r=(g,c)=>{let m=l(void 0);return d(m,g,c),p(m)};break}}return(l,p,d)=>{if(p===null)return;if(typeof p!="object"||Array.isArray(p))throw new I(e,"expected object, got "+D(p));let g=l[t],c=new Set,m=Object.keys(p);for(let h=0;h<m.length;h++){let b=m[h],_=p[b],y=o(b);if(c.has(y))throw new I(e,`duplicate map key "${b}"`);if(c.add(y),_===null&&i)throw new I(e,"map value must not be null");let x=r(_,d);if(x===He)continue;let N=u(y);if(N!==!0)throw new I(e,`invalid map key: ${K({scalar:n},y,N)}`);if(s!==void 0){let W=s(x);if(W!==!0)throw new I(e,`map entry ${D(y)}: ${K(e,x,W)}`)}U(g,y,a(x))}}}var He=Symbol();function B0(e){let t=e.values[0].number,n=new Map;for(let o of e.values)n.set(o.jsonName,o.number);for(let o of e.values)n.set(o.name,o.number);return(o,u)=>{if(o===null)return t;switch(typeof o){case"number":if(Number.isInteger(o))return o;break;case"string":{let r=n.get(o);if(r!==void 0)return r;if(u)return He;break}}throw new Error(`cannot decode ${e} from JSON: ${D(o)}`)}}function q0(e){if(e.open)return le(f.INT32);let t=e.values;return n=>t.some(o=>o.number===n)}function es(e){let t=W0(e),n=le(e.scalar),o=H0(e);return u=>{let r=t(u),s=n(r);if(s!==!0)throw new I(e,K(e,r,s));return o(r)}}function W0(e){switch(e.scalar){case f.DOUBLE:case f.FLOAT:return t=>{if(t==="NaN")return NaN;if(t==="Infinity")return Number.POSITIVE_INFINITY;if(t==="-Infinity")return Number.NEGATIVE_INFINITY;if(typeof t=="number"){if(Number.isNaN(t))throw new I(e,"unexpected NaN number");if(!Number.isFinite(t))throw new I(e,"unexpected infinite number");return t}if(typeof t=="string"){if(t===""||t.trim().length!==t.length)return t;let n=Number(t);return Number.isFinite(n)?n:t}return t};case f.INT32:case f.FIXED32:case f.SFIXED32:case f.SINT32:case f.UINT32:return ts;case f.BYTES:return t=>{if(typeof t=="string"){if(t==="")return new Uint8Array(0);try{return Ue(t)}catch(n){let o=n instanceof Error?n.message:String(n);throw new I(e,o)}}return t};default:return t=>t}}function H0(e){let t=e.fieldKind!=="map"&&e.longAsString;switch(e.scalar){case f.INT64:case f.SFIXED64:case f.SINT64:return t?n=>String(n):n=>typeof n=="string"||typeof n=="number"?T.parse(n):n;case f.FIXED64:case f.UINT64:return t?n=>String(n):n=>typeof n=="string"||typeof n=="number"?T.uParse(n):n;default:return n=>n}}function Dl(e){switch(e){case f.BOOL:return t=>{switch(t){case"true":return!0;case"false":return!1}return t};case f.INT32:case f.FIXED32:case f.UINT32:case f.SFIXED32:case f.SINT32:return ts;case f.INT64:case f.SINT64:case f.SFIXED64:case f.UINT64:case f.FIXED64:return t=>/^-?0+$/.test(t)?"0":t.replace(/^(-?)0+(?=\d)/,"$1");default:return t=>t}}function ts(e){if(typeof e=="string"){if(e===""||e.trim().length!==e.length)return e;let t=Number(e);return Number.isNaN(t)?e:t}return e}function Ml(e,t){let n;try{n=JSON.parse(e)}catch(o){let u=o instanceof Error?o.message:String(o);throw new Error(`cannot decode message ${t} from JSON: ${u}`,{cause:o})}return kl(e,t),n}function kl(e,t){let n=[],o=!1,u=0;for(;u<e.length;)switch(e[u]){case"{":n.push(new Set),o=!0,u++;break;case"[":n.push(null),o=!1,u++;break;case"}":case"]":n.pop(),o=!1,u++;break;case",":o=n[n.length-1]!=null,u++;break;case":":o=!1,u++;break;case'"':{let r=u++,s=!1;for(;u<e.length;){if(e[u]=="\\"){s=!0,u+=2;continue}if(e[u]=='"')break;u++}let a=u++,i=n[n.length-1];if(o&&i){let l=s?JSON.parse(e.substring(r,a+1)):e.substring(r+1,a);if(i.has(l))throw new Error(`cannot decode message ${t} from JSON: duplicate object key "${l}"`);i.add(l)}o=!1;break}default:u++;break}}function Gl(e,t,n){var o;if(t===null||Array.isArray(t)||typeof t!="object")throw new Error(`cannot decode message ${e.$typeName} from JSON: expected object but got ${D(t)}`);if(Object.keys(t).length==0)return;let u=t["@type"];if(typeof u!="string"||u=="")throw new Error(`cannot decode message ${e.$typeName} from JSON: "@type" is empty`);let r=u.includes("/")?u.substring(u.lastIndexOf("/")+1):u;if(!r.length)throw new Error(`cannot decode message ${e.$typeName} from JSON: "@type" is invalid`);let s=(o=n.registry)===null||o===void 0?void 0:o.getMessage(r);if(!s)throw new Error(`cannot decode message ${e.$typeName} from JSON: ${u} is not in the type registry`);let a=O(s);if(qt(s)&&Object.prototype.hasOwnProperty.call(t,"value"))We(s)(a,t.value,n);else{let i={};for(let l of Object.keys(t))l!=="@type"&&U(i,l,t[l]);We(s)(a,i,n)}Mr(s,a,e)}function Ul(e,t){if(typeof t!="string")throw new Error(`cannot decode message ${e.$typeName} from JSON: ${D(t)}`);let n=t.match(/^([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,9}))?(?:Z|([+-][0-9][0-9]:[0-9][0-9]))$/);if(!n)throw new Error(`cannot decode message ${e.$typeName} from JSON: invalid RFC 3339 string`);let o=Date.parse(n[1]+"-"+n[2]+"-"+n[3]+"T"+n[4]+":"+n[5]+":"+n[6]+(n[8]?n[8]:"Z"));if(Number.isNaN(o))throw new Error(`cannot decode message ${e.$typeName} from JSON: invalid RFC 3339 string`);if(o<rn||o>sn)throw new Error(`cannot decode message ${e.$typeName} from JSON: must be from 0001-01-01T00:00:00Z to 9999-12-31T23:59:59Z inclusive`);e.seconds=T.parse(o/1e3),e.nanos=0,n[7]&&(e.nanos=parseInt("1"+n[7]+"0".repeat(9-n[7].length))-1e9)}function Fl(e,t){if(typeof t!="string")throw new Error(`cannot decode message ${e.$typeName} from JSON: ${D(t)}`);let n=t.match(/^(-?[0-9]+)(?:\.([0-9]+))?s/);if(n===null)throw new Error(`cannot decode message ${e.$typeName} from JSON: ${D(t)}`);let o=Number(n[1]);if(o>ln||o<an)throw new Error(`cannot decode message ${e.$typeName} from JSON: ${D(t)}`);if(e.seconds=T.parse(o),typeof n[2]!="string")return;let u=n[2]+"0".repeat(9-n[2].length);e.nanos=parseInt(u),(o<0||Object.is(o,-0))&&(e.nanos=-e.nanos)}function Vl(e,t){if(typeof t!="string")throw new Error(`cannot decode message ${e.$typeName} from JSON: ${D(t)}`);t!==""&&(e.paths=t.split(",").map(n=>{if(n.includes("_"))throw new Error(`cannot decode message ${e.$typeName} from JSON: path names must be lowerCamelCase`);return zt(n)}))}function ns(e,t,n){if(typeof t!="object"||t==null||Array.isArray(t))throw new Error(`cannot decode message ${e.$typeName} from JSON ${D(t)}`);let o=Object.keys(t);for(let u=0;u<o.length;u++){let r=o[u],s=O(k0);K0(s,t[r],n),U(e.fields,r,s)}}function K0(e,t,n){if(++n.depth>n.recursionLimit)throw new Error(`cannot decode ${e.$typeName} from JSON: maximum recursion depth of ${n.recursionLimit} reached`);switch(typeof t){case"number":e.kind={case:"numberValue",value:t};break;case"string":e.kind={case:"stringValue",value:t};break;case"boolean":e.kind={case:"boolValue",value:t};break;case"object":if(t===null)e.kind={case:"nullValue",value:un.NULL_VALUE};else if(Array.isArray(t)){let o=O(Fr);os(o,t,n),e.kind={case:"listValue",value:o}}else{let o=O(Ur);ns(o,t,n),e.kind={case:"structValue",value:o}}break;default:throw new Error(`cannot decode message ${e.$typeName} from JSON ${D(t)}`)}return n.depth--,e}function os(e,t,n){if(!Array.isArray(t))throw new Error(`cannot decode message ${e.$typeName} from JSON ${D(t)}`);for(let o=0;o<t.length;o++){let u=O(k0);K0(u,t[o],n),e.values.push(u)}}function Y0(e){let t=v[e];return typeof t!="string"?e.toString():t[0].toLowerCase()+t.substring(1).replace(/[A-Z]/g,n=>"_"+n.toLowerCase())}var S=class e extends Error{constructor(t,n=v.Unknown,o,u,r){super($l(t,n)),this.name="ConnectError",this.isWireError=!1,Object.setPrototypeOf(this,new.target.prototype),this.rawMessage=t,this.code=n,this.metadata=new Headers(o??{}),this.details=u??[],this.cause=r}static from(t,n=v.Unknown){return t instanceof e?t:t instanceof Error?t.name=="AbortError"||t.name=="TimeoutError"?new e(t.message,v.Canceled):new e(t.message,n,void 0,void 0,t):new e(String(t),n,void 0,void 0,t)}static[Symbol.hasInstance](t){return t instanceof Error?Object.getPrototypeOf(t)===e.prototype?!0:t.name==="ConnectError"&&"code"in t&&typeof t.code=="number"&&"metadata"in t&&"details"in t&&Array.isArray(t.details)&&"rawMessage"in t&&typeof t.rawMessage=="string"&&"cause"in t:!1}findDetails(t){let n=t.kind==="message"?{getMessage:u=>u===t.typeName?t:void 0}:t,o=[];for(let u of this.details){if("desc"in u){n.getMessage(u.desc.typeName)&&o.push(O(u.desc,u.value));continue}let r=n.getMessage(u.type);if(r)try{o.push(J(r,u.value))}catch{}}return o}};function $l(e,t){return e.length?`[${Y0(t)}] ${e}`:`[${Y0(t)}]`}function us(e,t,n){try{let o=Ue(e);return t?J(t,o,n):o}catch(o){throw S.from(o,v.DataLoss)}}function rs(e,t){let n={};for(let o of e.methods){let u=t(o);u!=null&&(n[o.localName]=u)}return n}var fn=1;function ss(e,t,n=!1){if(t>e){let o=`message size is larger than configured readMaxBytes ${e}`;throw n&&(o=`message size ${t} is larger than configured readMaxBytes ${e}`),new S(o,v.ResourceExhausted)}}function Bl(e){return new j0(e)}var j0=class{constructor(t){this.readMaxBytes=t,this.header=new Uint8Array(5),this.headerView=new DataView(this.header.buffer),this.buf=[]}get byteLength(){return this.buf.reduce((t,n)=>t+n.byteLength,0)}decode(t){this.buf.push(t);let n=[];for(;;){let o=this.pop();if(!o)break;n.push(o)}return n}pop(){if(!(!this.env&&(this.env=this.head(),!this.env))&&this.cons(this.env.data)){let t=this.env;return this.env=void 0,t}}head(){if(!this.cons(this.header))return;let t=this.headerView.getUint8(0),n=this.headerView.getUint32(1);return ss(this.readMaxBytes,n,!0),{flags:t,data:new Uint8Array(n)}}cons(t){let n=t.byteLength;if(this.byteLength<n)return!1;let o=0;for(;o<n;){let u=this.buf.shift();u.byteLength>n-o?(t.set(u.subarray(0,n-o),o),this.buf.unshift(u.subarray(n-o)),o+=n-o):(t.set(u,o),o+=u.byteLength)}return!0}};function mn(e){let t,n=Bl(4294967295);return new ReadableStream({start(){t=e.getReader()},async pull(o){let u=!1;for(;!u;){let r=await t.read();if(r.done)n.byteLength>0&&o.error(new S("protocol error: incomplete envelope",v.InvalidArgument)),o.close();else for(let s of n.decode(r.value))o.enqueue(s),u=!0}}})}function dn(e,t){let n=new Uint8Array(t.length+5);n.set(t,5);let o=new DataView(n.buffer,n.byteOffset,n.byteLength);return o.setUint8(0,e),o.setUint32(1,t.length),n}var ql=function(e){if(!Symbol.asyncIterator)throw new TypeError("Symbol.asyncIterator is not defined.");var t=e[Symbol.asyncIterator],n;return t?t.call(e):(e=typeof __values=="function"?__values(e):e[Symbol.iterator](),n={},o("next"),o("throw"),o("return"),n[Symbol.asyncIterator]=function(){return this},n);function o(r){n[r]=e[r]&&function(s){return new Promise(function(a,i){s=e[r](s),u(a,i,s.done,s.value)})}}function u(r,s,a,i){Promise.resolve(i).then(function(l){r({value:l,done:a})},s)}},bt=function(e){return this instanceof bt?(this.v=e,this):new bt(e)},Wl=function(e,t,n){if(!Symbol.asyncIterator)throw new TypeError("Symbol.asyncIterator is not defined.");var o=n.apply(e,t||[]),u,r=[];return u=Object.create((typeof AsyncIterator=="function"?AsyncIterator:Object).prototype),a("next"),a("throw"),a("return",s),u[Symbol.asyncIterator]=function(){return this},u;function s(c){return function(m){return Promise.resolve(m).then(c,d)}}function a(c,m){o[c]&&(u[c]=function(h){return new Promise(function(b,_){r.push([c,h,b,_])>1||i(c,h)})},m&&(u[c]=m(u[c])))}function i(c,m){try{l(o[c](m))}catch(h){g(r[0][3],h)}}function l(c){c.value instanceof bt?Promise.resolve(c.value.v).then(p,d):g(r[0][2],c)}function p(c){i("next",c)}function d(c){i("throw",c)}function g(c,m){c(m),r.shift(),r.length&&i(r[0][0],r[0][1])}},Hl=function(e){var t,n;return t={},o("next"),o("throw",function(u){throw u}),o("return"),t[Symbol.iterator]=function(){return this},t;function o(u,r){t[u]=e[u]?function(s){return(n=!n)?{value:bt(e[u](s)),done:!1}:r?r(s):s}:r}};function as(e){return Wl(this,arguments,function*(){yield bt(yield*Hl(ql(e)))})}var is=function(e){if(!Symbol.asyncIterator)throw new TypeError("Symbol.asyncIterator is not defined.");var t=e[Symbol.asyncIterator],n;return t?t.call(e):(e=typeof __values=="function"?__values(e):e[Symbol.iterator](),n={},o("next"),o("throw"),o("return"),n[Symbol.asyncIterator]=function(){return this},n);function o(r){n[r]=e[r]&&function(s){return new Promise(function(a,i){s=e[r](s),u(a,i,s.done,s.value)})}}function u(r,s,a,i){Promise.resolve(i).then(function(l){r({value:l,done:a})},s)}},Ke=function(e){return this instanceof Ke?(this.v=e,this):new Ke(e)},Kl=function(e){var t,n;return t={},o("next"),o("throw",function(u){throw u}),o("return"),t[Symbol.iterator]=function(){return this},t;function o(u,r){t[u]=e[u]?function(s){return(n=!n)?{value:Ke(e[u](s)),done:!1}:r?r(s):s}:r}},Yl=function(e,t,n){if(!Symbol.asyncIterator)throw new TypeError("Symbol.asyncIterator is not defined.");var o=n.apply(e,t||[]),u,r=[];return u=Object.create((typeof AsyncIterator=="function"?AsyncIterator:Object).prototype),a("next"),a("throw"),a("return",s),u[Symbol.asyncIterator]=function(){return this},u;function s(c){return function(m){return Promise.resolve(m).then(c,d)}}function a(c,m){o[c]&&(u[c]=function(h){return new Promise(function(b,_){r.push([c,h,b,_])>1||i(c,h)})},m&&(u[c]=m(u[c])))}function i(c,m){try{l(o[c](m))}catch(h){g(r[0][3],h)}}function l(c){c.value instanceof Ke?Promise.resolve(c.value.v).then(p,d):g(r[0][2],c)}function p(c){i("next",c)}function d(c){i("throw",c)}function g(c,m){c(m),r.shift(),r.length&&i(r[0][0],r[0][1])}};function Ye(e,t){return rs(e,n=>{switch(n.methodKind){case"unary":return jl(t,n);case"server_streaming":return Jl(t,n);case"client_streaming":return Xl(t,n);case"bidi_streaming":return zl(t,n);default:return null}})}function jl(e,t){return async(n,o)=>{var u,r;let s=await e.unary(t,o?.signal,o?.timeoutMs,o?.headers,n,o?.contextValues);return(u=o?.onHeader)===null||u===void 0||u.call(o,s.header),(r=o?.onTrailer)===null||r===void 0||r.call(o,s.trailer),s.message}}function Jl(e,t){return(n,o)=>ls(e.stream(t,o?.signal,o?.timeoutMs,o?.headers,as([n]),o?.contextValues),o)}function Xl(e,t){return async(n,o)=>{var u,r,s,a,i,l;let p=await e.stream(t,o?.signal,o?.timeoutMs,o?.headers,n,o?.contextValues);(i=o?.onHeader)===null||i===void 0||i.call(o,p.header);let d,g=0;try{for(var c=!0,m=is(p.message),h;h=await m.next(),u=h.done,!u;c=!0)a=h.value,c=!1,d=a,g++}catch(b){r={error:b}}finally{try{!c&&!u&&(s=m.return)&&await s.call(m)}finally{if(r)throw r.error}}if(!d)throw new S("protocol error: missing response message",v.Unimplemented);if(g>1)throw new S("protocol error: received extra messages for client streaming method",v.Unimplemented);return(l=o?.onTrailer)===null||l===void 0||l.call(o,p.trailer),d}}function zl(e,t){return(n,o)=>ls(e.stream(t,o?.signal,o?.timeoutMs,o?.headers,n,o?.contextValues),o)}function ls(e,t){let n=(function(){return Yl(this,arguments,function*(){var o,u;let r=yield Ke(e);(o=t?.onHeader)===null||o===void 0||o.call(t,r.header),yield Ke(yield*Kl(is(r.message))),(u=t?.onTrailer)===null||u===void 0||u.call(t,r.trailer)})})()[Symbol.asyncIterator]();return{[Symbol.asyncIterator]:()=>({next:()=>n.next()})}}function cs(...e){let t=new AbortController,n=e.filter(u=>u!==void 0).concat(t.signal);for(let u of n){if(u.aborted){o.apply(u);break}u.addEventListener("abort",o)}function o(){t.signal.aborted||t.abort(gn(this));for(let u of n)u.removeEventListener("abort",o)}return t}function ps(e){let t=new AbortController,n=()=>{t.abort(new S("the operation timed out",v.DeadlineExceeded))},o;return e!==void 0&&(e<=0?n():o=setTimeout(n,e)),{signal:t.signal,cleanup:()=>clearTimeout(o)}}function gn(e){if(!e.aborted)return;if(e.reason!==void 0)return e.reason;let t=new Error("This operation was aborted");return t.name="AbortError",t}function bn(){return{get(e){return e.id in this?this[e.id]:e.defaultValue},set(e,t){return this[e.id]=t,this},delete(e){return delete this[e.id],this}}}function hn(e){let t=new Headers,n=new TextDecoder().decode(e).split(`\r
`);for(let o of n){if(o==="")continue;let u=o.indexOf(":");if(u>0){let r=o.substring(0,u).trim(),s=o.substring(u+1).trim();t.append(r,s)}}return t}var J0="Content-Type";var X0="Grpc-Timeout",z="Grpc-Status",ht="Grpc-Message";var z0="Grpc-Status-Details-Bin";var _n="User-Agent";var Z0="X-User-Agent",ms="X-Grpc-Web";var ds="application/grpc-web+proto",gs="application/grpc-web+json";function he(e,t,...n){if(n.length>0)throw new Error;return e.services[t]}var Ql=w("CgxzdGF0dXMucHJvdG8SCmdvb2dsZS5ycGMiTgoGU3RhdHVzEgwKBGNvZGUYASABKAUSDwoHbWVzc2FnZRgCIAEoCRIlCgdkZXRhaWxzGAMgAygLMhQuZ29vZ2xlLnByb3RvYnVmLkFueUJeCg5jb20uZ29vZ2xlLnJwY0ILU3RhdHVzUHJvdG9QAVo3Z29vZ2xlLmdvbGFuZy5vcmcvZ2VucHJvdG8vZ29vZ2xlYXBpcy9ycGMvc3RhdHVzO3N0YXR1c6ICA1JQQ2IGcHJvdG8z",[D0]),bs=A(Ql,0);var hs="0";function vn(e){var t;let n=e.get(z0);if(n!=null){let u=us(n,bs);if(u.code==0)return;let r=new S(u.message,u.code,e);return r.details=u.details.map(s=>({type:s.typeUrl.substring(s.typeUrl.lastIndexOf("/")+1),value:s.value})),r.isWireError=!0,r}let o=e.get(z);if(o!=null){if(o===hs)return;let u=parseInt(o,10),r;return u in v?r=new S(decodeURIComponent((t=e.get(ht))!==null&&t!==void 0?t:""),u,e):r=new S(`invalid grpc-status: ${o}`,v.Internal,e),r.isWireError=!0,r}}function yn(e,t){return e.toString().replace(/\/?$/,`/${t.parent.typeName}/${t.name}`)}function Q0(e,t){return O(e,t)}function _s(e,t){function n(o){return o.done===!0?o:{done:o.done,value:Q0(e,o.value)}}return{[Symbol.asyncIterator](){let o=t[Symbol.asyncIterator](),u={next:()=>o.next().then(n)};return o.throw!==void 0&&(u.throw=r=>o.throw(r).then(n)),o.return!==void 0&&(u.return=r=>o.return(r).then(n)),u}}}function eo(e,t){if(!t)return e;for(let n of t.concat().reverse())e=n(e);return e}function Es(e){var t;let n=Object.assign({},e);return(t=n.ignoreUnknownFields)!==null&&t!==void 0||(n.ignoreUnknownFields=!0),n}function En(e,t,n,o){let u=t?vs(e.input,o):ys(e.input,n);return{parse:(t?vs(e.output,o):ys(e.output,n)).parse,serialize:u.serialize}}function vs(e,t){return{parse(n){try{return J(e,n,t)}catch(o){let u=o instanceof Error?o.message:String(o);throw new S(`parse binary: ${u}`,v.Internal)}},serialize(n){try{return $e(e,n,t)}catch(o){let u=o instanceof Error?o.message:String(o);throw new S(`serialize binary: ${u}`,v.Internal)}}}}function ys(e,t){var n,o;let u=(n=t?.textEncoder)!==null&&n!==void 0?n:new TextEncoder,r=(o=t?.textDecoder)!==null&&o!==void 0?o:new TextDecoder,s=Es(t);return{parse(a){try{let i=r.decode(a);return Zr(e,i,s)}catch(i){throw S.from(i,v.InvalidArgument)}},serialize(a){try{let i=Hr(e,a,s);return u.encode(i)}catch(i){throw S.from(i,v.Internal)}}}}function to(e){let t=eo(e.next,e.interceptors),[n,o,u]=Ss(e),r=Object.assign(Object.assign({},e.req),{message:Q0(e.req.method.input,e.req.message),signal:n});return t(r).then(s=>(u(),s),o)}function no(e){let t=eo(e.next,e.interceptors),[n,o,u]=Ss(e),r=Object.assign(Object.assign({},e.req),{message:_s(e.req.method.input,e.req.message),signal:n}),s=!1;return n.addEventListener("abort",function(){var a,i;let l=e.req.message[Symbol.asyncIterator]();s||(a=l.throw)===null||a===void 0||a.call(l,this.reason).catch(()=>{}),(i=l.return)===null||i===void 0||i.call(l).catch(()=>{})}),t(r).then(a=>Object.assign(Object.assign({},a),{message:{[Symbol.asyncIterator](){let i=a.message[Symbol.asyncIterator]();return{next(){return!s&&n.aborted?o(gn(n)):i.next().then(l=>(l.done==!0&&(s=!0,u()),l),o)}}}}}),o)}function Ss(e){let{signal:t,cleanup:n}=ps(e.timeoutMs),o=cs(e.signal,t);return[o.signal,function(r){let s=o.signal.aborted?S.from(gn(o.signal),v.Canceled):S.from(r);return o.abort(s),n(),Promise.reject(s)},function(){n(),o.abort()}]}function Ns(){try{new Headers}catch{throw new Error("connect-web requires the fetch API. Are you running on an old version of Node.js? Node.js is not supported in Connect for Web - please stay tuned for Connect for Node.")}}function _t(e,t){let n=vn(e);if(n)throw t.forEach((o,u)=>{n.metadata.append(u,o)}),n;if(!t.has(z)&&!e.has(z))throw new S("protocol error: missing status",v.Internal)}function Sn(e,t,n,o){var u,r;let s=new Headers(n??{});s.set(J0,e?ds:gs),s.set(ms,"1");let a=(r=(u=s.get(_n))!==null&&u!==void 0?u:s.get(Z0))!==null&&r!==void 0?r:"connect-es/2.2.0";return s.set(Z0,a),o&&s.set(_n,a),t!==void 0&&s.set(X0,`${t}m`),s}function Ts(e){switch(e){case 400:return v.Internal;case 401:return v.Unauthenticated;case 403:return v.PermissionDenied;case 404:return v.Unimplemented;case 429:return v.Unavailable;case 502:return v.Unavailable;case 503:return v.Unavailable;case 504:return v.Unavailable;default:return v.Unknown}}function Nn(e,t){var n;if(e>=200&&e<300)return{foundStatus:t.has(z),headerError:vn(t)};throw new S(decodeURIComponent((n=t.get(ht))!==null&&n!==void 0?n:`HTTP ${e}`),Ts(e),t)}var xe=function(e){return this instanceof xe?(this.v=e,this):new xe(e)},ec=function(e,t,n){if(!Symbol.asyncIterator)throw new TypeError("Symbol.asyncIterator is not defined.");var o=n.apply(e,t||[]),u,r=[];return u=Object.create((typeof AsyncIterator=="function"?AsyncIterator:Object).prototype),a("next"),a("throw"),a("return",s),u[Symbol.asyncIterator]=function(){return this},u;function s(c){return function(m){return Promise.resolve(m).then(c,d)}}function a(c,m){o[c]&&(u[c]=function(h){return new Promise(function(b,_){r.push([c,h,b,_])>1||i(c,h)})},m&&(u[c]=m(u[c])))}function i(c,m){try{l(o[c](m))}catch(h){g(r[0][3],h)}}function l(c){c.value instanceof xe?Promise.resolve(c.value.v).then(p,d):g(r[0][2],c)}function p(c){i("next",c)}function d(c){i("throw",c)}function g(c,m){c(m),r.shift(),r.length&&i(r[0][0],r[0][1])}},Is={redirect:"error"};function oo(e){var t;Ns();let n=(t=e.useBinaryFormat)!==null&&t!==void 0?t:!0;return{async unary(o,u,r,s,a,i){let{serialize:l,parse:p}=En(o,n,e.jsonOptions,e.binaryOptions);return r=r===void 0?e.defaultTimeoutMs:r<=0?void 0:r,await to({interceptors:e.interceptors,signal:u,timeoutMs:r,req:{stream:!1,service:o.parent,method:o,requestMethod:"POST",url:yn(e.baseUrl,o),header:Sn(n,r,s,!1),contextValues:i??bn(),message:a},next:async d=>{var g;let m=await((g=e.fetch)!==null&&g!==void 0?g:globalThis.fetch)(d.url,Object.assign(Object.assign({},Is),{method:d.requestMethod,headers:d.header,signal:d.signal,body:dn(0,l(d.message))})),{headerError:h}=Nn(m.status,m.headers);if(!m.body)throw h!==void 0?h:"missing response body";let b=mn(m.body).getReader(),_,y;for(;;){let x=await b.read();if(x.done)break;let{flags:N,data:W}=x.value;if((N&fn)===fn)throw new S("protocol error: received unsupported compressed output",v.Internal);if(N===128){if(_!==void 0)throw"extra trailer";_=hn(W);continue}if(y!==void 0)throw new S("extra message",v.Unimplemented);y=p(W)}if(_===void 0)throw h!==void 0?h:new S("missing trailer",m.headers.has(z)?v.Unimplemented:v.Unknown);if(_t(_,m.headers),y===void 0)throw new S("missing message",_.has(z)?v.Unimplemented:v.Unknown);return{stream:!1,service:o.parent,method:o,header:m.headers,message:y,trailer:_}}})},async stream(o,u,r,s,a,i){let{serialize:l,parse:p}=En(o,n,e.jsonOptions,e.binaryOptions);function d(c,m,h,b,_){return ec(this,arguments,function*(){let x=mn(c).getReader();if(m){if(!(yield xe(x.read())).done)throw"extra data for trailers-only";return yield xe(void 0)}let N=!1;for(;;){let W=yield xe(x.read());if(W.done)break;let{flags:It,data:ve}=W.value;if((It&128)===128){if(N)throw"extra trailer";N=!0;let ee=hn(ve);_t(ee,b),ee.forEach((xt,te)=>h.set(te,xt));continue}if(N)throw"extra message";yield yield xe(p(ve))}if("throwIfAborted"in _&&_.throwIfAborted(),!N)throw"missing trailer"})}async function g(c){if(o.methodKind!="server_streaming")throw"The fetch API does not support streaming request bodies";let m=await c[Symbol.asyncIterator]().next();if(m.done==!0)throw"missing request message";return dn(0,l(m.value))}return r=r===void 0?e.defaultTimeoutMs:r<=0?void 0:r,no({interceptors:e.interceptors,signal:u,timeoutMs:r,req:{stream:!0,service:o.parent,method:o,requestMethod:"POST",url:yn(e.baseUrl,o),header:Sn(n,r,s,!1),contextValues:i??bn(),message:a},next:async c=>{var m;let b=await((m=e.fetch)!==null&&m!==void 0?m:globalThis.fetch)(c.url,Object.assign(Object.assign({},Is),{method:c.requestMethod,headers:c.header,signal:c.signal,body:await g(c.message)})),{foundStatus:_,headerError:y}=Nn(b.status,b.headers);if(y!=null)throw y;if(!b.body)throw"missing response body";let x=new Headers;return Object.assign(Object.assign({},c),{header:b.headers,trailer:x,message:d(b.body,_,x,b.headers,c.signal)})}})}}}var Z=w(btoa(`
toolgate/v1/prompt.proto\vtoolgate.v1"d
PermissionRule

permission (	
\x07pattern (	-
action (2.toolgate.v1.PermissionAction"ë
PromptResolution-
\bdecision (2\x1B.toolgate.v1.PromptDecision
\x07message (	0
\fresolve_time (\v2.google.protobuf.Timestamp
\vresolved_by (	
because_of_prompt_id (	
withdrawn_because (	,
\x07answers\x07 (\v2\x1B.toolgate.v1.QuestionAnswer&
scope\b (\v2.toolgate.v1.GrantScope
always_patterns	 (	

input_json
 (	
\finput_digest\v (	"w

GrantScope&
reach (2.toolgate.v1.GrantReach/
\vexpire_time (\v2.google.protobuf.Timestamp
\bmax_uses (" 
QuestionAnswer
values (	"
PermissionRequest

permission (	
\bpatterns (	
always (	\r
title (	)
\bmetadata (\v2.google.protobuf.Struct)
rule (\v2\x1B.toolgate.v1.PermissionRule*
parts\x07 (\v2\x1B.toolgate.v1.PermissionPart+
ahead\b (\v2.toolgate.v1.PermissionAhead"7
PermissionAhead

permission (	
\bpatterns (	";
QuestionRequest(
	questions (\v2.toolgate.v1.Question"|
\bQuestion
\bquestion (	
header (	,
\x07options (\v2\x1B.toolgate.v1.QuestionOption
\bmultiple (\b
custom (\b"4
QuestionOption\r
label (	
\vdescription (	"Þ
PermissionPart\f
text (	
	arguments (	
\bpatterns (	
always (	\r
paths (	
\x07unclear (	-
action\x07 (2.toolgate.v1.PermissionAction)
rule\b (\v2\x1B.toolgate.v1.PermissionRule
\x07granted	 (\b"¹
Prompt
	prompt_id (	
\x07call_id (	

session_id (	
	workspace (	\r
agent (	\f
tool (	
	requester\x07 (	/
\vcreate_time\b (\v2.google.protobuf.Timestamp/
\vexpire_time	 (\v2.google.protobuf.Timestamp'
state
 (2.toolgate.v1.PromptState
\finput_digest\v (	4

permission\f (\v2.toolgate.v1.PermissionRequestH\01
	questions (\v2.toolgate.v1.QuestionRequestH\01

resolution\r (\v2.toolgate.v1.PromptResolution
\fon_behalf_of (	.
	approvals (\v2\x1B.toolgate.v1.PromptApproval
\beditable (\b

input_json (	
	directory (	9
\venvironment (\v2$.toolgate.v1.Prompt.EnvironmentEntry2
EnvironmentEntry\v
key (	\r
value (	:8B	
\x07request"
PromptApproval
	principal (	
\vapproved_by (	-
\bdecision (2\x1B.toolgate.v1.PromptDecision0
\fapprove_time (\v2.google.protobuf.Timestamp"Ô
Grant
\bgrant_id (	
	workspace (	

permission (	
\x07pattern (	/
\vcreate_time (\v2.google.protobuf.Timestamp
	prompt_id (	&
scope\x07 (\v2.toolgate.v1.GrantScope

session_id\b (	
\fprompt_title	 (	

granted_by
 (	
	use_count\v (1
\rlast_use_time\f (\v2.google.protobuf.Timestamp
	approvers\r (	*
PermissionAction!
PERMISSION_ACTION_UNSPECIFIED\0\x1B
PERMISSION_ACTION_ALLOW
PERMISSION_ACTION_ASK
PERMISSION_ACTION_DENY*
\vPromptState
PROMPT_STATE_UNSPECIFIED\0
PROMPT_STATE_OPEN
PROMPT_STATE_RESOLVED
PROMPT_STATE_EXPIRED
PROMPT_STATE_WITHDRAWN*¼
PromptDecision
\x1BPROMPT_DECISION_UNSPECIFIED\0
PROMPT_DECISION_ONCE
PROMPT_DECISION_ALWAYS
PROMPT_DECISION_REJECT
PROMPT_DECISION_ANSWER\x1B
PROMPT_DECISION_INSTEAD*r

GrantReach\x1B
GRANT_REACH_UNSPECIFIED\0
GRANT_REACH_RUN
GRANT_REACH_SESSION
GRANT_REACH_WORKSPACEB
io.toolgate.v1B\vPromptProtoPZBgithub.com/toolgate/toolgate/clients/go/gen/toolgate/v1;toolgatev1¢TGª\vToolgate.V1Ê\vToolgate\\V1ê\fToolgate::V1bproto3`),[X,q]);var Pg=A(Z,2);var tc=(r=>(r[r.UNSPECIFIED=0]="UNSPECIFIED",r[r.OPEN=1]="OPEN",r[r.RESOLVED=2]="RESOLVED",r[r.EXPIRED=3]="EXPIRED",r[r.WITHDRAWN=4]="WITHDRAWN",r))(tc||{});var xs=(s=>(s[s.UNSPECIFIED=0]="UNSPECIFIED",s[s.ONCE=1]="ONCE",s[s.ALWAYS=2]="ALWAYS",s[s.REJECT=3]="REJECT",s[s.ANSWER=4]="ANSWER",s[s.INSTEAD=5]="INSTEAD",s))(xs||{});var In=w(btoa(`
toolgate/v1/result.proto\vtoolgate.v1"
\rCommandResult
	exit_code (H\0
signal (
	timed_out (\b
processes_left (
background_call_id (	B\f

_exit_code"5
\vFilesResult&
files (\v2.toolgate.v1.FileResult"

FileResult\f
path (	'
action (2.toolgate.v1.FileAction
\bmoved_to (	
\vadded_lines (
\rremoved_lines (
diff (	H\0B\x07
_diff"R
\fSearchResult
\x07matches (H\0\r
files (
	truncated (\bB

\b_matches"

ReadResult\f
path (	#
kind (2.toolgate.v1.ReadKind\r
first (\r
shown (\r
total (
	truncated (\b"R
\vFetchResult\v
url (	
status (

media_type (	

size_bytes ("M
ChildrenResult'
calls (\v2.toolgate.v1.ChildResult

session_id (	"?
\vChildResult\f
tool (	
\x07call_id (	
	succeeded (\b*«
\vCallOutcome
CALL_OUTCOME_UNSPECIFIED\0
CALL_OUTCOME_OK
CALL_OUTCOME_NON_ZERO
CALL_OUTCOME_TIMED_OUT
CALL_OUTCOME_PARTIAL
CALL_OUTCOME_INVALID*

FileAction\x1B
FILE_ACTION_UNSPECIFIED\0
FILE_ACTION_ADDED
FILE_ACTION_MODIFIED
FILE_ACTION_DELETED
FILE_ACTION_MOVED*d
\bReadKind
READ_KIND_UNSPECIFIED\0
READ_KIND_TEXT
READ_KIND_FOLDER
READ_KIND_MEDIAB
io.toolgate.v1B\vResultProtoPZBgithub.com/toolgate/toolgate/clients/go/gen/toolgate/v1;toolgatev1¢TGª\vToolgate.V1Ê\vToolgate\\V1ê\fToolgate::V1bproto3`));var xn=w(btoa(`
toolgate/v1/terminal.proto\vtoolgate.v1"-
\fTerminalSize
\x07columns (\f
rows ("Q
ResizeTerminalRequest
\x07call_id (	'
size (\v2.toolgate.v1.TerminalSize"
ResizeTerminalResponse"I
SignalCallRequest
\x07call_id (	#
signal (2.toolgate.v1.Signal"
SignalCallResponse"%
GetTerminalRequest
\x07call_id (	"Ð
GetTerminalResponse'
size (\v2.toolgate.v1.TerminalSize
\bcontents (\f
\rcursor_column (

cursor_row (
cursor_visible (\b\r
title (	
\routput_offset\x07 (
\rlast_sequence\b (*
Signal
SIGNAL_UNSPECIFIED\0

SIGNAL_INT
\vSIGNAL_TERM

SIGNAL_HUP
\vSIGNAL_QUIT
\vSIGNAL_USR1
\vSIGNAL_USR2B
io.toolgate.v1B\rTerminalProtoPZBgithub.com/toolgate/toolgate/clients/go/gen/toolgate/v1;toolgatev1¢TGª\vToolgate.V1Ê\vToolgate\\V1ê\fToolgate::V1bproto3`));var je=w(btoa(`
toolgate/v1/call.proto\vtoolgate.v1"B
\bModelRef
\vprovider_id (	
\bmodel_id (	
\x07package (	"
ToolDefinition\f
name (	
\vdescription (	
input_schema_json (	'
source (2.toolgate.v1.ToolSource(
\x07effects (2.toolgate.v1.ToolEffect
\vpermissions (	
\fexperimental\x07 (\b\r
title\b (	'
claims	 (\v2.toolgate.v1.ToolClaims"È

ToolClaims
output_schema_json (	
	read_only (\bH\0
\vdestructive (\bH

idempotent (\bH

open_world (\bHB\f

_read_onlyB
\f_destructiveB\r
\v_idempotentB\r
\v_open_world"
\vCallContext
	workspace (	

session_id (	

message_id (	\r
agent (	$
model (\v2.toolgate.v1.ModelRef
\vclient_kind (	
\vclient_name\x07 (	
parent_call_id\b (	&
extra	 (\v2.google.protobuf.Struct

client_ids
 (	
	directory\v (	>
\venvironment\f (\v2).toolgate.v1.CallContext.EnvironmentEntry2
EnvironmentEntry\v
key (	\r
value (	:8"¥
	CallStart)
\x07context (\v2.toolgate.v1.CallContext
\x07call_id (	+

unattended (2.toolgate.v1.Unattended/
\fwait_timeout (\v2.google.protobuf.Duration"m

Attachment
\rattachment_id (	\f
mime (	
\bfilename (	
data (\fH\0\r
url (	H\0B	
\x07content"j

Truncation
	truncated (\b
	output_id (	\f
path (	
\vtotal_bytes (
\vtotal_lines ("
Timing)
queued (\v2.google.protobuf.Duration)
waited (\v2.google.protobuf.Duration&
ran (\v2.google.protobuf.Duration"Ê
	Resources,
	user_time (\v2.google.protobuf.Duration.
\vsystem_time (\v2.google.protobuf.Duration
peak_memory_bytes (H\0

read_bytes (
\rwritten_bytes (B
_peak_memory_bytes"\x07
Call
\x07call_id (	)
\x07context (\v2.toolgate.v1.CallContext\f
tool (	
requested_tool (	

input_json (	
\finput_digest (	%
state\x07 (2.toolgate.v1.CallState/
\vcreate_time\b (\v2.google.protobuf.Timestamp.

start_time	 (\v2.google.protobuf.Timestamp,
\bend_time
 (\v2.google.protobuf.Timestamp
\rlast_sequence\v (\r
title\f (	
\x07summary (	
waiting_prompt_id\r (	/
	completed (\v2.toolgate.v1.CallCompletedH\0)
failed (\v2.toolgate.v1.CallFailedH\0(
\x07changes (\v2.toolgate.v1.FileChange
\raccepts_input (\b
next_input_offset (<
background_processes (\v2.toolgate.v1.BackgroundProcess
	requester (	\x1B
original_input_json (	
original_input_digest (	
\vwaiting_for (	)
	resources (\v2.toolgate.v1.Resources+
\bterminal (\v2.toolgate.v1.TerminalSize-
	listening\x1B (\v2.toolgate.v1.ListeningPortB\b
ending"L
\rListeningPort\f
port (
\x07address (	\v
pid (
\x07command (	"1
BackgroundProcess\v
pid (
\x07command (	"m

FileChange\f
path (	(
before (\v2.toolgate.v1.FileVersion'
after (\v2.toolgate.v1.FileVersion"M
\vFileVersion
sha256 (	

size_bytes (
mode (\rH\0B\x07
_mode"®
	CallEvent
\x07call_id (	
\bsequence (.

event_time (\v2.google.protobuf.Timestamp+
\x07pending (\v2.toolgate.v1.CallPendingH\0+
\x07running (\v2.toolgate.v1.CallRunningH\0-
\bmetadata (\v2.toolgate.v1.CallMetadataH\0)
output\x07 (\v2.toolgate.v1.CallOutputH\0+
\x07waiting\b (\v2.toolgate.v1.CallWaitingH\0+
\x07resumed	 (\v2.toolgate.v1.CallResumedH\0+
\x07warning
 (\v2.toolgate.v1.CallWarningH\0/
	heartbeat\v (\v2.toolgate.v1.CallHeartbeatH\0#
gap\f (\v2.toolgate.v1.CallGapH\0/
	completed\r (\v2.toolgate.v1.CallCompletedH\0)
failed (\v2.toolgate.v1.CallFailedH\0'
child (\v2.toolgate.v1.CallChildH\0/
	listening (\v2.toolgate.v1.CallListeningH\0B\x07
event"|
\vCallPending\f
tool (	
requested_tool (	\r
title (	
\x07summary (	'
queued (\v2.toolgate.v1.CallQueued"*

CallQueued\r
limit (	\r
ahead ("F
\vCallRunning

input_json (	
\finput_digest (	\r
title (	"W
\fCallMetadata
title (	H\0)
\bmetadata (\v2.google.protobuf.StructB\b
_title"=

CallOutput
	output_id (	
offset (\f
data (\f"E
\vCallWaiting#
prompt (\v2.toolgate.v1.Prompt
	approvers ("|
\vCallResumed
	prompt_id (	'
state (2.toolgate.v1.PromptState1

resolution (\v2.toolgate.v1.PromptResolution"*
	CallChild
\x07call_id (	\f
tool (	":
\rCallListening)
ports (\v2.toolgate.v1.ListeningPort"C
\vCallWarning&
kind (2.toolgate.v1.WarningKind\f
text (	"
\rCallHeartbeat
\rlast_sequence (%
state (2.toolgate.v1.CallState*
\x07elapsed (\v2.google.protobuf.Duration
\bdraining (\b"N
\x07CallGap
first_sequence (
\rlast_sequence (
\foutput_bytes ("
\rCallCompleted\r
title (	
output (	)
\bmetadata (\v2.google.protobuf.Struct,
\vattachments (\v2.toolgate.v1.Attachment+

truncation (\v2.toolgate.v1.Truncation#
timing (\v2.toolgate.v1.Timing)
\x07outcome\x07 (2.toolgate.v1.CallOutcome-
\x07command\b (\v2.toolgate.v1.CommandResultH\0)
files	 (\v2.toolgate.v1.FilesResultH\0+
search
 (\v2.toolgate.v1.SearchResultH\0'
read\v (\v2.toolgate.v1.ReadResultH\0)
fetch\f (\v2.toolgate.v1.FetchResultH\0/
\bchildren\r (\v2\x1B.toolgate.v1.ChildrenResultH\0B\b
result"

CallFailed*
reason (2.toolgate.v1.FailureReason\r
error (	\r
title (	)
\bmetadata (\v2.google.protobuf.Struct,
\vattachments (\v2.toolgate.v1.Attachment+

truncation (\v2.toolgate.v1.Truncation#
timing\x07 (\v2.toolgate.v1.Timing*

ToolSource\x1B
TOOL_SOURCE_UNSPECIFIED\0
TOOL_SOURCE_BUILTIN
TOOL_SOURCE_CUSTOM
TOOL_SOURCE_PLUGIN
TOOL_SOURCE_MCP
TOOL_SOURCE_HOSTED*«

ToolEffect\x1B
TOOL_EFFECT_UNSPECIFIED\0
TOOL_EFFECT_READS
TOOL_EFFECT_WRITES
TOOL_EFFECT_RUNS_PROGRAMS
TOOL_EFFECT_NETWORK
TOOL_EFFECT_ASKS_USER*T

Unattended
UNATTENDED_UNSPECIFIED\0
UNATTENDED_REFUSE
UNATTENDED_WAIT*_
\fOnDisconnect
ON_DISCONNECT_UNSPECIFIED\0
ON_DISCONNECT_CANCEL
ON_DISCONNECT_KEEP*k

OutputMode\x1B
OUTPUT_MODE_UNSPECIFIED\0
OUTPUT_MODE_FULL
OUTPUT_MODE_TAIL
OUTPUT_MODE_NONE* 
	CallState
CALL_STATE_UNSPECIFIED\0
CALL_STATE_PENDING
CALL_STATE_RUNNING
CALL_STATE_WAITING
CALL_STATE_COMPLETED
CALL_STATE_FAILED*
\rFailureReason
FAILURE_REASON_UNSPECIFIED\0$
 FAILURE_REASON_INVALID_ARGUMENTS
FAILURE_REASON_DENIED\x1B
FAILURE_REASON_REJECTED!
FAILURE_REASON_PROMPT_EXPIRED
FAILURE_REASON_CANCELLED
FAILURE_REASON_TIMED_OUT
FAILURE_REASON_TOOL_ERROR\x07
FAILURE_REASON_DOOM_LOOP\b
FAILURE_REASON_QUOTA	
FAILURE_REASON_DRAINED

FAILURE_REASON_LOST\v\x1B
FAILURE_REASON_INTERNAL\f*Ä
\vWarningKind
WARNING_KIND_UNSPECIFIED\0
WARNING_KIND_LOSSY
WARNING_KIND_NO_UNDO%
!WARNING_KIND_ATTACHMENTS_LEFT_OUT
WARNING_KIND_SURVIVORS"
WARNING_KIND_METADATA_LEFT_OUTB
io.toolgate.v1B	CallProtoPZBgithub.com/toolgate/toolgate/clients/go/gen/toolgate/v1;toolgatev1¢TGª\vToolgate.V1Ê\vToolgate\\V1ê\fToolgate::V1bproto3`),[Ve,X,q,Z,In,xn]);var Rn=(c=>(c[c.UNSPECIFIED=0]="UNSPECIFIED",c[c.INVALID_ARGUMENTS=1]="INVALID_ARGUMENTS",c[c.DENIED=2]="DENIED",c[c.REJECTED=3]="REJECTED",c[c.PROMPT_EXPIRED=4]="PROMPT_EXPIRED",c[c.CANCELLED=5]="CANCELLED",c[c.TIMED_OUT=6]="TIMED_OUT",c[c.TOOL_ERROR=7]="TOOL_ERROR",c[c.DOOM_LOOP=8]="DOOM_LOOP",c[c.QUOTA=9]="QUOTA",c[c.DRAINED=10]="DRAINED",c[c.LOST=11]="LOST",c[c.INTERNAL=12]="INTERNAL",c))(Rn||{});var _e=w(btoa(`
toolgate/v1/options.proto\vtoolgate.v1*
Scope
SCOPE_UNSPECIFIED\0
SCOPE_CALLS_EXECUTE
SCOPE_CALLS_READ
SCOPE_PROMPTS_REPLY
SCOPE_TOOLS_HOST
SCOPE_OUTPUTS_READ
\vSCOPE_ADMIN
SCOPE_TOOLS_HOOK\x07
SCOPE_FILES_READ\b
SCOPE_FILES_WRITE	\x1B
SCOPE_WORKSPACES_MANAGE

SCOPE_PORTS_CONNECT\v:K
scopes.google.protobuf.MethodOptionsÞ
 (2.toolgate.v1.ScopeRscopesB
io.toolgate.v1B\fOptionsProtoPZBgithub.com/toolgate/toolgate/clients/go/gen/toolgate/v1;toolgatev1¢TGª\vToolgate.V1Ê\vToolgate\\V1ê\fToolgate::V1bproto3`),[P0]);var nc=w(btoa(`
toolgate/v1/info_service.proto\vtoolgate.v1"
GetServerInfoRequest"
GetServerInfoResponse
\x07version (	
\fapi_revision\v (&
\bfeatures\f (2.toolgate.v1.Feature
\vinstance_id (	.

start_time (\v2.google.protobuf.Timestamp#
limits (\v2.toolgate.v1.Limits.

workspaces (\v2.toolgate.v1.WorkspaceInfo%
\x07sandbox (2.toolgate.v1.Sandbox
\rrunning_calls\x07 (.
\fsandbox_info\b (\v2.toolgate.v1.SandboxInfo
\fqueued_calls	 (
\bwarnings
 (	"Ë
\vSandboxInfo'
	available (2.toolgate.v1.Sandbox
landlock_version (
\x07missing (	&
mode (2.toolgate.v1.SandboxMode.
\x07network (2.toolgate.v1.PermissionAction
\brequired (\b"\b
Limits
max_running_calls (
max_input_bytes (
max_output_bytes (
max_message_bytes (
truncate_lines (
truncate_bytes (,
	heartbeat\x07 (\v2.google.protobuf.Duration1
prompt_timeout\b (\v2.google.protobuf.Duration3
output_retention	 (\v2.google.protobuf.Duration1
call_retention
 (\v2.google.protobuf.Duration,
max_running_calls_per_workspace\v (H\0*
max_running_calls_per_session\f (H,
max_running_calls_per_principal\r (H
max_queued_calls (
max_queued_bytes ($
max_requests_per_second (H
max_request_burst (H
\vmax_streams (&
max_streams_per_principal (H"
max_streams_per_connection (
max_open_prompts ()
max_open_prompts_per_session (H
max_workspaces (B"
 _max_running_calls_per_workspaceB 
_max_running_calls_per_sessionB"
 _max_running_calls_per_principalB
_max_requests_per_secondB
_max_request_burstB
_max_streams_per_principalB
_max_open_prompts_per_session"Ô
\rWorkspaceInfo\f
name (	
	directory (	
\bworktree (	&
agents (\v2.toolgate.v1.AgentInfo
\x07trusted (\b1
\ftool_sources (\v2\x1B.toolgate.v1.ToolSourceInfo9
language_servers\x07 (\v2.toolgate.v1.LanguageServerInfo
\bwarnings\b (	
\x07problem	 (	-
	open_time
 (\v2.google.protobuf.Timestamp
	opened_by\v (	*
usage\f (\v2\x1B.toolgate.v1.WorkspaceUsage*
state\r (2\x1B.toolgate.v1.WorkspaceState,
source (\v2.toolgate.v1.WorkspaceSource"°
WorkspaceSource)
empty (\v2.toolgate.v1.EmptySourceH\0
\btemplate (	H\0%
git (\v2.toolgate.v1.GitSourceH\0-
\x07archive (\v2.toolgate.v1.ArchiveSourceH\0B\b
source"\r
\vEmptySource"+
	GitSource\v
url (	
	reference (	"
\rArchiveSource\v
url (	"®
WorkspaceUsage
\rrunning_calls (
	processes (
\fmemory_bytes (,
	user_time (\v2.google.protobuf.Duration.
\vsystem_time (\v2.google.protobuf.Duration"S
LanguageServerInfo

id (	
\x07program (	
\x07problem (	
\x07running ("
ToolSourceInfo'
source (2.toolgate.v1.ToolSource\f
name (	+
state (2.toolgate.v1.ToolSourceState
\x07problem (	\r
tools ("
	AgentInfo\f
name (	
\vdescription (	$
mode (2.toolgate.v1.AgentMode*
rules (\v2\x1B.toolgate.v1.PermissionRule*å
\x07Feature
FEATURE_UNSPECIFIED\0
\vFEATURE_MCP
FEATURE_JAVASCRIPT
\vFEATURE_LSP
\fFEATURE_OTEL
\vFEATURE_JWT
FEATURE_CONSOLE
FEATURE_SANDBOX\x07\x1B
FEATURE_OPEN_WORKSPACES\b
FEATURE_CREATE_WORKSPACES	*
\vSandboxMode
SANDBOX_MODE_UNSPECIFIED\0
SANDBOX_MODE_OFF 
SANDBOX_MODE_WORKSPACE_WRITE
SANDBOX_MODE_READ_ONLY*Ã
WorkspaceState
\x1BWORKSPACE_STATE_UNSPECIFIED\0
WORKSPACE_STATE_READY
WORKSPACE_STATE_CREATING
WORKSPACE_STATE_SUSPENDED
WORKSPACE_STATE_FAILED
WORKSPACE_STATE_DELETING*¥
ToolSourceState!
TOOL_SOURCE_STATE_UNSPECIFIED\0 
TOOL_SOURCE_STATE_CONNECTING\x1B
TOOL_SOURCE_STATE_READY
TOOL_SOURCE_STATE_DISABLED
TOOL_SOURCE_STATE_FAILED 
TOOL_SOURCE_STATE_NEEDS_AUTH/
+TOOL_SOURCE_STATE_NEEDS_CLIENT_REGISTRATION
\x1BTOOL_SOURCE_STATE_UNTRUSTED\x07*l
	AgentMode
AGENT_MODE_UNSPECIFIED\0
AGENT_MODE_PRIMARY
AGENT_MODE_SUBAGENT
AGENT_MODE_ALL*}
\x07Sandbox
SANDBOX_UNSPECIFIED\0
\fSANDBOX_NONE
SANDBOX_LANDLOCK
SANDBOX_SECCOMP
SANDBOX_LANDLOCK_SECCOMP2n
\vInfoService_
\rGetServerInfo!.toolgate.v1.GetServerInfoRequest".toolgate.v1.GetServerInfoResponse"\x07òUB
io.toolgate.v1BInfoServiceProtoPZBgithub.com/toolgate/toolgate/clients/go/gen/toolgate/v1;toolgatev1¢TGª\vToolgate.V1Ê\vToolgate\\V1ê\fToolgate::V1bproto3`),[Ve,q,je,_e,Z]);var Rs=he(nc,0);var ws=w(btoa(`
$toolgate/v1/permission_service.proto\vtoolgate.v1"W
\fPromptFilter
	workspace (	\v
all (\b
\vsession_ids (	

client_ids (	"p
ChannelRequest(
open (\v2.toolgate.v1.ChannelOpenH\0)
reply (\v2.toolgate.v1.PromptReplyH\0B	
\x07message"F
\vChannelOpen\f
name (	)
filter (\v2.toolgate.v1.PromptFilter"
\vPromptReply
	prompt_id (	
\finput_digest (	
\breply_id (	-
\bdecision (2\x1B.toolgate.v1.PromptDecision
\x07message (	,
\x07answers (\v2\x1B.toolgate.v1.QuestionAnswer&
scope\x07 (\v2.toolgate.v1.GrantScope
always_patterns\b (	

input_json	 (	"
ChannelResponse,
opened (\v2.toolgate.v1.ChannelOpenedH\00
\fprompt_added (\v2.toolgate.v1.PromptAddedH\00
\fsnapshot_end (\v2.toolgate.v1.SnapshotEndH\06
prompt_resolved (\v2\x1B.toolgate.v1.PromptResolvedH\06
\freply_result (\v2.toolgate.v1.PromptReplyResultH\02
	heartbeat (\v2.toolgate.v1.ChannelHeartbeatH\04
prompt_updated\x07 (\v2.toolgate.v1.PromptUpdatedH\0B	
\x07message"$
\rChannelOpened
\vinstance_id (	"2
\vPromptAdded#
prompt (\v2.toolgate.v1.Prompt"
\vSnapshotEnd
\x07prompts ("5
PromptResolved#
prompt (\v2.toolgate.v1.Prompt"4
\rPromptUpdated#
prompt (\v2.toolgate.v1.Prompt"
PromptReplyResult
	prompt_id (	
\breply_id (	(
result (2.toolgate.v1.ReplyResult#
prompt (\v2.toolgate.v1.Prompt
\x07message (	"U
ChannelHeartbeat/
\vserver_time (\v2.google.protobuf.Timestamp
\bdraining (\b"@
WatchPromptsRequest)
filter (\v2.toolgate.v1.PromptFilter"Õ
WatchPromptsResponse,
opened (\v2.toolgate.v1.ChannelOpenedH\00
\fprompt_added (\v2.toolgate.v1.PromptAddedH\00
\fsnapshot_end (\v2.toolgate.v1.SnapshotEndH\06
prompt_resolved (\v2\x1B.toolgate.v1.PromptResolvedH\02
	heartbeat (\v2.toolgate.v1.ChannelHeartbeatH\04
prompt_updated (\v2.toolgate.v1.PromptUpdatedH\0B	
\x07message"¡
ListPromptsRequest)
filter (\v2.toolgate.v1.PromptFilter(
states (2.toolgate.v1.PromptState
\x07call_id (	
	page_size (

page_token (	"T
ListPromptsResponse$
\x07prompts (\v2.toolgate.v1.Prompt
next_page_token (	"%
GetPromptRequest
	prompt_id (	"8
GetPromptResponse#
prompt (\v2.toolgate.v1.Prompt"K
ReplyPromptRequest'
reply (\v2.toolgate.v1.PromptReply\f
name (	"E
ReplyPromptResponse.
result (\v2.toolgate.v1.PromptReplyResult"M
ListGrantsRequest
	workspace (	
	page_size (

page_token (	"Q
ListGrantsResponse"
grants (\v2.toolgate.v1.Grant
next_page_token (	"&
RevokeGrantRequest
\bgrant_id (	"8
RevokeGrantResponse!
grant (\v2.toolgate.v1.Grant*ß
\vReplyResult
REPLY_RESULT_UNSPECIFIED\0
REPLY_RESULT_ACCEPTED!
REPLY_RESULT_ALREADY_RESOLVED
REPLY_RESULT_NOT_FOUND
REPLY_RESULT_EXPIRED
REPLY_RESULT_WITHDRAWN 
REPLY_RESULT_DIGEST_MISMATCH
REPLY_RESULT_INVALID\x07
\x1BREPLY_RESULT_OTHER_INSTANCE\b
REPLY_RESULT_NOT_ALLOWED	'
#REPLY_RESULT_SECOND_APPROVAL_NEEDED
2
PermissionServiceN
\x07Channel\x1B.toolgate.v1.ChannelRequest.toolgate.v1.ChannelResponse"òU(0_
\fWatchPrompts .toolgate.v1.WatchPromptsRequest!.toolgate.v1.WatchPromptsResponse"\bòU0Z
\vListPrompts.toolgate.v1.ListPromptsRequest .toolgate.v1.ListPromptsResponse"\bòUT
	GetPrompt.toolgate.v1.GetPromptRequest.toolgate.v1.GetPromptResponse"\bòUY
\vReplyPrompt.toolgate.v1.ReplyPromptRequest .toolgate.v1.ReplyPromptResponse"\x07òUW

ListGrants.toolgate.v1.ListGrantsRequest.toolgate.v1.ListGrantsResponse"\bòUV
\vRevokeGrant.toolgate.v1.RevokeGrantRequest .toolgate.v1.RevokeGrantResponse"òUB
io.toolgate.v1BPermissionServiceProtoPZBgithub.com/toolgate/toolgate/clients/go/gen/toolgate/v1;toolgatev1¢TGª\vToolgate.V1Ê\vToolgate\\V1ê\fToolgate::V1bproto3`),[q,_e,Z]);var Cs=A(ws,3);var Os=he(ws,0);var oc=w(btoa(`
!toolgate/v1/session_service.proto\vtoolgate.v1":
GetSessionRequest

session_id (	
	workspace (	";
GetSessionResponse%
\x07session (\v2.toolgate.v1.Session"·
\x07Session

session_id (	'
\frecent_calls (\v2.toolgate.v1.Call)
\fopen_prompts (\v2.toolgate.v1.Prompt"
grants (\v2.toolgate.v1.Grant 
todos (\v2.toolgate.v1.Todo"®
ListSessionsRequest
	workspace (	-
	from_time (\v2.google.protobuf.Timestamp.

until_time (\v2.google.protobuf.Timestamp
	page_size (

page_token (	"^
ListSessionsResponse-
\bsessions (\v2\x1B.toolgate.v1.SessionSummary
next_page_token (	"ÿ
SessionSummary

session_id (	
	workspace (	
agents (	/
\vcreate_time (\v2.google.protobuf.Timestamp6
last_activity_time (\v2.google.protobuf.Timestamp\r
calls (
unfinished_calls\x07 (
\rwaiting_calls\b (\r
ended	 (\b"Q
Todo
\x07content (	
status (	
\bpriority (	
id (	H\0B
_id":
EndSessionRequest

session_id (	
	workspace (	"-
EndSessionResponse
cancelled_calls ("
WatchEventsRequest
	workspace (	

session_id (	\x1B
after_sequence (H\0
\fresume_token (	B
_after_sequence"N
WatchEventsResponse!
event (\v2.toolgate.v1.Event
\fresume_token (	"Õ
Event
\bsequence (.

event_time (\v2.google.protobuf.Timestamp
	workspace (	

session_id (	;
call_state_changed (\v2.toolgate.v1.CallStateChangedH\0.
\vfile_edited (\v2.toolgate.v1.FileEditedH\02
\rprompt_opened\x07 (\v2.toolgate.v1.PromptOpenedH\00
\fprompt_ended\b (\v2.toolgate.v1.PromptEndedH\02
\rsession_ended	 (\v2.toolgate.v1.SessionEndedH\00
	heartbeat
 (\v2\x1B.toolgate.v1.EventHeartbeatH\02
\rtodos_updated\v (\v2.toolgate.v1.TodosUpdatedH\02
\rtools_changed\f (\v2.toolgate.v1.ToolsChangedH\0A
call_metadata_changed\r (\v2 .toolgate.v1.CallMetadataChangedH\0:
workspace_changed (\v2.toolgate.v1.WorkspaceChangedH\0:
listening_changed (\v2.toolgate.v1.ListeningChangedH\0B\x07
event"õ
CallStateChanged
\x07call_id (	\f
tool (	%
state (2.toolgate.v1.CallState\r
title (	
\x07summary (	*
reason (2.toolgate.v1.FailureReason)
\x07outcome\x07 (2.toolgate.v1.CallOutcome
	exit_code\b (H\0B\f

_exit_code"+

FileEdited\f
path (	
\x07call_id (	"q
CallMetadataChanged
\x07call_id (	\f
tool (	
\bsequence ()
\bmetadata (\v2.google.protobuf.Struct"?
\fToolsChanged\r
added (	
\x07removed (	
\x07changed (	"@
WorkspaceChanged,
change (2.toolgate.v1.WorkspaceChange"N
ListeningChanged
\x07call_id (	)
ports (\v2.toolgate.v1.ListeningPort"2
\fPromptOpened
	prompt_id (	
\x07call_id (	"Z
\vPromptEnded
	prompt_id (	
\x07call_id (	'
state (2.toolgate.v1.PromptState"A
\fTodosUpdated 
todos (\v2.toolgate.v1.Todo
\x07call_id (	"
\fSessionEnded""
EventHeartbeat
\bdraining (\b*
WorkspaceChange 
WORKSPACE_CHANGE_UNSPECIFIED\0\x1B
WORKSPACE_CHANGE_OPENED\x1B
WORKSPACE_CHANGE_CLOSED
WORKSPACE_CHANGE_CHANGED2û
SessionServiceV

GetSession.toolgate.v1.GetSessionRequest.toolgate.v1.GetSessionResponse"\x07òU\\
\fListSessions .toolgate.v1.ListSessionsRequest!.toolgate.v1.ListSessionsResponse"\x07òUV

EndSession.toolgate.v1.EndSessionRequest.toolgate.v1.EndSessionResponse"\x07òU[
\vWatchEvents.toolgate.v1.WatchEventsRequest .toolgate.v1.WatchEventsResponse"\x07òU0B
io.toolgate.v1BSessionServiceProtoPZBgithub.com/toolgate/toolgate/clients/go/gen/toolgate/v1;toolgatev1¢TGª\vToolgate.V1Ê\vToolgate\\V1ê\fToolgate::V1bproto3`),[X,q,je,_e,Z,In]);var Ps=he(oc,0);var uc=w(btoa(`
toolgate/v1/tool_service.proto\vtoolgate.v1"Å
ListToolsRequest
	workspace (	\r
agent (	$
model (\v2.toolgate.v1.ModelRef
\vclient_kind (	
	page_size (

page_token (	
\rif_none_match\x07 (	
parent_call_id\b (	"|
ListToolsResponse*
tools (\v2\x1B.toolgate.v1.ToolDefinition\f
etag (	
next_page_token (	
\fnot_modified (\b"²
ExecuteToolRequest)
\x07context (\v2.toolgate.v1.CallContext
\x07call_id (	\f
tool (	

input_json (	H\0(
input (\v2.google.protobuf.StructH\0*
\x07timeout (\v2.google.protobuf.Duration0
\ron_disconnect\x07 (2.toolgate.v1.OnDisconnect'
output\b (2.toolgate.v1.OutputModeB\v
	arguments"<
ExecuteToolResponse%
event (\v2.toolgate.v1.CallEvent"ã
RunToolRequest)
\x07context (\v2.toolgate.v1.CallContext
\x07call_id (	\f
tool (	

input_json (	H\0(
input (\v2.google.protobuf.StructH\0*
\x07timeout (\v2.google.protobuf.Duration0
\ron_disconnect\x07 (2.toolgate.v1.OnDisconnect+

unattended\b (2.toolgate.v1.Unattended/
\fwait_timeout	 (\v2.google.protobuf.DurationB\v
	arguments"2
RunToolResponse
call (\v2.toolgate.v1.Call"
EvaluateCallRequest)
\x07context (\v2.toolgate.v1.CallContext\f
tool (	

input_json (	H\0(
input (\v2.google.protobuf.StructH\0B\v
	arguments"G
EvaluateCallResponse/

evaluation (\v2\x1B.toolgate.v1.CallEvaluation"
CallEvaluation-
action (2.toolgate.v1.PermissionAction\f
tool (	
\x07summary (	

input_json (	
\finput_digest (	/
\brequests (\v2.toolgate.v1.EvaluatedRequest-
\bchildren\x07 (\v2\x1B.toolgate.v1.CallEvaluation
\x07problem\b (	
\bcomplete	 (\b"Û
EvaluatedRequest4

permission (\v2.toolgate.v1.PermissionRequestH\01
	questions (\v2.toolgate.v1.QuestionRequestH\0-
action (2.toolgate.v1.PermissionAction
	grant_ids (	
	announced (\bB	
\x07request"d
WatchCallRequest
\x07call_id (	
after_sequence ('
output (2.toolgate.v1.OutputMode":
WatchCallResponse%
event (\v2.toolgate.v1.CallEvent"!
GetCallRequest
\x07call_id (	"2
GetCallResponse
call (\v2.toolgate.v1.Call"ë
ListCallsRequest
	workspace (	

session_id (	
parent_call_id (	&
states (2.toolgate.v1.CallState+
\x07reasons (2.toolgate.v1.FailureReason\r
tools (	\r
agent\x07 (	
	requester\b (	-
	from_time	 (\v2.google.protobuf.Timestamp.

until_time
 (\v2.google.protobuf.Timestamp\f
text\v (	
	page_size\f (

page_token\r (	"N
ListCallsResponse 
calls (\v2.toolgate.v1.Call
next_page_token (	"$
CancelCallRequest
\x07call_id (	"5
CancelCallResponse
call (\v2.toolgate.v1.Call"P
SendInputRequest
\x07call_id (	
offset (\f
data (\f\r
close (\b"8
SendInputResponse
\vnext_offset (
closed (\b"¨
RevertCallRequest)
\x07context (\v2.toolgate.v1.CallContext
\x07call_id (	
revert_call_id (	\r
merge (\b0
\ron_disconnect (2.toolgate.v1.OnDisconnect";
RevertCallResponse%
event (\v2.toolgate.v1.CallEvent2ù\b
\vToolServiceS
	ListTools.toolgate.v1.ListToolsRequest.toolgate.v1.ListToolsResponse"\x07òUX
\vExecuteTool.toolgate.v1.ExecuteToolRequest .toolgate.v1.ExecuteToolResponse"òU0J
\x07RunTool\x1B.toolgate.v1.RunToolRequest.toolgate.v1.RunToolResponse"òU\\
\fEvaluateCall .toolgate.v1.EvaluateCallRequest!.toolgate.v1.EvaluateCallResponse"\x07òUU
	WatchCall.toolgate.v1.WatchCallRequest.toolgate.v1.WatchCallResponse"\x07òU0M
\x07GetCall\x1B.toolgate.v1.GetCallRequest.toolgate.v1.GetCallResponse"\x07òUS
	ListCalls.toolgate.v1.ListCallsRequest.toolgate.v1.ListCallsResponse"\x07òUV

CancelCall.toolgate.v1.CancelCallRequest.toolgate.v1.CancelCallResponse"\x07òUS
	SendInput.toolgate.v1.SendInputRequest.toolgate.v1.SendInputResponse"\x07òUb
ResizeTerminal".toolgate.v1.ResizeTerminalRequest#.toolgate.v1.ResizeTerminalResponse"\x07òUY
\vGetTerminal.toolgate.v1.GetTerminalRequest .toolgate.v1.GetTerminalResponse"\x07òUS

SignalCall.toolgate.v1.SignalCallRequest.toolgate.v1.SignalCallResponse"òUU

RevertCall.toolgate.v1.RevertCallRequest.toolgate.v1.RevertCallResponse"òU0B
io.toolgate.v1BToolServiceProtoPZBgithub.com/toolgate/toolgate/clients/go/gen/toolgate/v1;toolgatev1¢TGª\vToolgate.V1Ê\vToolgate\\V1ê\fToolgate::V1bproto3`),[Ve,X,q,je,_e,Z,xn]);var As=he(uc,0);var uo="toolgate.token",fe="-",vt=E(sessionStorage.getItem(uo)??""),yt=E(void 0),wn=E(0),Ib=()=>vt.value!=="";function xb(e){vt.value=e,sessionStorage.setItem(uo,e),yt.value=void 0,wn.value+=1}function Rb(){sessionStorage.removeItem(uo),location.hash="",location.reload()}var rc=e=>async t=>{let n=vt.value;n!==""&&t.header.set("authorization",`Bearer ${n}`);try{return await e(t)}catch(o){throw ro(o,n)}};function ro(e,t=vt.value){let n=S.from(e);return n.code===v.Unauthenticated&&t===vt.value&&(yt.value=t===""?"":n.rawMessage),n}var Cn=oo({baseUrl:location.origin,interceptors:[rc]});function On(e){let t=S.from(e);switch(t.code){case v.Unknown:case v.Unavailable:return"The service cannot be reached.";case v.PermissionDenied:return`Not allowed: ${t.rawMessage}`;default:return t.rawMessage===""?`The service says ${v[t.code]}.`:t.rawMessage}}var me=Ye(As,Cn),so=Ye(Os,Cn),Ls=Ye(Ps,Cn),ao=Ye(Rs,Cn);function we(e){return e===void 0?void 0:Number(e.seconds)*1e3+e.nanos/1e6}function Pn(e){return e===void 0?0:Number(e.seconds)*1e3+e.nanos/1e6}var Ds=4e4,sc=300,ac=8e3,ic=3e4,Ce=E([]),Ab=$(()=>Ce.value.map(t=>t.value).find(t=>!t.live)??{live:Ce.value.length>0,why:""}),lc=E(!document.hidden);document.addEventListener("visibilitychange",()=>{lc.value=!document.hidden});var io=new Set;function cc(){for(let e of[...io])e()}addEventListener("online",cc);function pc(e){return new Promise(t=>{let n=()=>{clearTimeout(o),io.delete(n),t()},o=setTimeout(n,e);io.add(n)})}function fc(e){return new Promise(t=>{let n,o=!1;n=ne(()=>{o||!e()||(o=!0,t(),queueMicrotask(()=>n?.()))})})}async function Lb(e,t,n=!1){let o=E({live:n,why:""}),u=0,r,s=a=>{let i=Ce.peek().includes(o);a&&!i&&(Ce.value=[...Ce.peek(),o]),!a&&i&&(Ce.value=Ce.peek().filter(l=>l!==o))};for(;;){e()===void 0&&s(!1),await fc(()=>e()!==void 0&&yt.value===void 0);let a=e();a!==r&&(u=0,o.value={live:n,why:""}),r=a,s(!0);let i=await mc(e,t,()=>{u=0,o.value.live||(o.value={live:!0,why:""})});if(e()!==a||yt.peek()!==void 0)continue;let p=i.code===v.PermissionDenied?ic:Math.min(ac,sc*2**u)*(.75+Math.random()/2);u+=1,o.value={live:!1,retry:Date.now()+p,why:On(i)},await pc(p),o.value={live:!1,why:o.value.why}}}async function mc(e,t,n){let o=new AbortController,u=setTimeout(()=>o.abort(),Ds),r=()=>{clearTimeout(u),u=setTimeout(()=>o.abort(),Ds),n()},[s,a]=[e(),wn.peek()],i=ne(()=>{(e()!==s||wn.value!==a)&&o.abort()});try{return await t({signal:o.signal,alive:r}),new S("the stream ended",v.Unavailable)}catch(l){return ro(l)}finally{clearTimeout(u),i(),o.abort()}}var Ms=E(!1);navigator.locks?navigator.locks.request("toolgate.attend",()=>(Ms.value=!0,new Promise(()=>{}))):Ms.value=!0;var An=new Map;function kb(e,t,n){let[o,u]=Ho(()=>{let s=An.get(e);return s?.has(t)?s.get(t):n()});return[o,s=>{let a=An.get(e)??new Map;An.set(e,a.set(t,s)),u(()=>s)}]}function ks(e){An.delete(e)}var dc=6e3,Ln=E({text:"",number:0}),Gs;function de(e){Ln.value={text:e,number:Ln.value.number+1},clearTimeout(Gs),Gs=setTimeout(()=>{Ln.value={text:"",number:Ln.value.number}},dc)}var gc=["home","calls","prompts","timeline","sessions"];function co(e){let[t,n]=e.replace(/^#\/?/,"").split("?"),[o,...u]=t.split("/"),r=gc.find(a=>a===o)??"home",s=/^line=(\d{1,12})$/.exec(n??"")?.[1]??"0";try{return{view:r,id:decodeURIComponent(u.join("/")),line:Number(s)}}catch{return{view:r,id:"",line:0}}}var Us=E(co(location.hash));addEventListener("hashchange",()=>{Us.value=co(location.hash)});function bc(e,t="",n=0){return`#/${e}${t===""?"":`/${encodeURIComponent(t)}`}${n===0?"":`?line=${n}`}`}function Fs(e,t="",n="push",o=0){let u=bc(e,t,o);u!==location.hash&&(n==="replace"?(history.replaceState(null,"",u),Us.value=co(u)):location.hash=u)}var lo=matchMedia("(max-width: 800px)"),hc=E(lo.matches);lo.addEventListener("change",()=>hc.value=lo.matches);var Vs="toolgate.notify",_c=typeof Notification<"u"&&isSecureContext,po=E(_c&&localStorage.getItem(Vs)==="on"&&Notification.permission==="granted");async function Wb(e){let t=e&&await Notification.requestPermission()==="granted";return po.value=t,localStorage.setItem(Vs,t?"on":"off"),e&&!t?"The browser blocks notifications from this page. You can allow them in its settings for this site.":""}function fo(e,t,n){if(!(!po.value||document.hasFocus()))try{let o=new Notification(t,{body:n,tag:e,icon:"icon.svg"});o.onclick=()=>{window.focus(),Fs("prompts",e),o.close()}}catch{po.value=!1}}var go="toolgate.name",vc=256,yc="console",Et=E(localStorage.getItem(go)),$s=()=>Et.value||yc;function Yb(e){let t=e.trim();for(;new TextEncoder().encode(t).length>vc;)t=t.slice(0,-1);Et.value=t,localStorage.setItem(go,Et.value)}addEventListener("storage",({key:e,newValue:t})=>{e===go&&(Et.value=t)});var mo=E(void 0);async function Bs(){if(Et.value!==null)return!0;mo.value?.(!1);let e=await new Promise(t=>mo.value=t);return mo.value=void 0,e}var Ec=/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;function Ws(e){return e.replace(Ec,t=>`\\u{${t.codePointAt(0).toString(16)}}`)}var Sc=/\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)|[@-Z\\^_])/g;function Nc(e){return e.includes("\x1B")?e.replace(Sc,""):e}function Jb(e){return Ws(Nc(e))}function ue(e,t){let n=Ws(e).replace(/\s+/g," ").trim();return n.length>t?`${n.slice(0,t-1)}…`:n}function Tc(e){if(e<1e3)return`${Math.max(0,Math.floor(e))} ms`;let t=e/1e3;if(t<9.95)return`${t.toFixed(1)} s`;if(t<60)return`${Math.floor(t)} s`;let n=Math.floor(t);return n<3600?`${Math.floor(n/60)} min ${n%60} s`:n<86400?`${Math.floor(n/3600)} h ${Math.floor(n%3600/60)} min`:`${Math.floor(n/86400)} d ${Math.floor(n%86400/3600)} h`}function Ic(e){if(e<1024)return`${e} B`;let t=["KiB","MiB","GiB","TiB"],n=e/1024,o=0;for(;n>=1024&&o<t.length-1;)n/=1024,o+=1;return`${n.toFixed(n<10?1:0)} ${t[o]}`}var xc=new Intl.DateTimeFormat(void 0,{timeStyle:"medium"}),Rc=new Intl.DateTimeFormat(void 0,{dateStyle:"medium",timeStyle:"medium"});function Xb(e){let t=new Date(e);return(t.toDateString()===new Date().toDateString()?xc:Rc).format(t)}var wc=new Intl.DateTimeFormat(void 0,{hour:"2-digit",minute:"2-digit",second:"2-digit",fractionalSecondDigits:1});function zb(e){return wc.format(e)}function qs(e,t,n=`${t}s`){return`${e.toLocaleString()} ${e===1?t:n}`}function Zb(e,t){return[qs(e.runningCalls,"call"),qs(e.processes,"process","processes"),Ic(Number(e.memoryBytes)),`${Tc(t)} of processor`].join(", ")}function Qb(e){try{return JSON.stringify(JSON.parse(e),null,2)}catch{return e}}var re=E(new Map),mh=$(()=>re.value.size),Hs=$(()=>new Map([...re.value.values()].map(e=>[e.callId,e])));function Dn(e){let t=e.request;switch(t.case){case"permission":{let{title:n,patterns:o,permission:u,metadata:r}=t.value,{command:s}=r??{},a=n||o.join(", ")||u;return typeof s!="string"?ue(a,200):ue(s.startsWith(a)?s:`${s} · ${a}`,200)}case"questions":return ue(t.value.questions.map(n=>n.header||n.question).join(", "),200);case void 0:return"something that this page cannot show"}}async function dh({signal:e,alive:t}){let n=new Map;for await(let{message:o}of so.watchPrompts({filter:{workspace:fe,all:!0}},{signal:e,onHeader:t}))switch(t(),o.case){case"promptAdded":case"promptUpdated":{let u=o.value.prompt;if(n!==void 0){n.set(u.promptId,u);break}re.value.has(u.promptId)||(de(`${u.tool} asks: ${Dn(u)}`),fo(u.promptId,`${ue(u.tool,40)} asks`,Dn(u))),re.value=new Map(re.value).set(u.promptId,u);break}case"promptResolved":bo(o.value.prompt.promptId),n?.delete(o.value.prompt.promptId);break;case"snapshotEnd":if(n!==void 0){let u=[...n.keys()].filter(s=>!re.value.has(s)),r=u.length===1?"A prompt is waiting.":`${u.length} prompts are waiting.`;u.length>0&&(de(r),fo(u[0],"Toolgate",r)),re.value=n}n=void 0;break;case"opened":case"heartbeat":case void 0:break}}function bo(e){if(!re.value.has(e))return;let t=new Map(re.value);t.delete(e),re.value=t}var Oc={1:"Allowed once.",2:"Allowed, from now on.",3:"Rejected.",4:"Answered.",5:"Allowed, with the input that you wrote."},Pc={2:"Somebody else was faster: the prompt had been answered.",3:"There is no such prompt any more.",4:"The prompt had expired.",5:"The call had ended.",6:"The input is another one than you were shown. Nothing was decided.",8:"Another instance of the service waits for this prompt: answer there.",9:"You may not answer prompts of your own calls."},Ac=new Set([2,3,4,5]);async function gh(e,t){if(!await Bs())return;let n=O(Cs,{...t,promptId:e.promptId,replyId:crypto.randomUUID(),inputDigest:e.inputDigest});try{let o=await so.replyPrompt({reply:n,name:$s()}),{result:u,message:r}=o.result;if(u===1){ks(e.promptId),bo(e.promptId),de(Oc[t.decision]??"Answered.");return}if(u===10){de("Approved. Another person has to approve as well.");return}let s=Pc[u]??`The service did not take the answer: ${r}`;return Ac.has(u)&&(bo(e.promptId),de(s)),s}catch(o){return On(o)}}async function bh(e){let t=new AbortController;try{let n={callId:e.callId,output:3};for await(let{event:o}of me.watchCall(n,{signal:t.signal})){let u=o?.event;if(u?.case==="waiting"&&u.value.prompt?.promptId===e.promptId)return u.value.approvers;if(u?.case==="heartbeat")break}}catch{}finally{t.abort()}}var Lc=2e4,Dc=500,Mc=50,vo=450,kc=100,Gc=20,Uc=20,Fc=8,Vc=250,Eo=E(0),Ks=E(!1),yo=E(!1),St=E(-1/0),Q=new Map,Mn=[],Oe=new Set,ho=!1,js=()=>Mn,Nh=e=>Q.get(e),Je=e=>e===4||e===5;function So(){ho||(ho=!0,setTimeout(()=>{ho=!1,Mn=[...Q.values()].sort((e,t)=>t.created-e.created||(e.id<t.id?1:-1));for(let e of Mn.splice(Lc))Q.delete(e.id),yo.value=!0,St.value=Math.max(St.value,e.created);Eo.value+=1},60))}function $c(e){switch(e.outcome){case 2:{let t=e.result.case==="command"?e.result.value:void 0;return t?.exitCode===void 0?`signal ${t?.signal??0}`:`exit ${t.exitCode}`}case 3:return"timed out";case 4:return"partly failed";case 5:return"invalid";default:return""}}function Js(e){return(Rn[e]??"failed").toLowerCase().replaceAll("_"," ")}function Bc(e){let{created:t,started:n,ended:o,waited:u}=e,r=[{kind:"queued",from:t,...n??o?{to:n??o}:{}}];if(n===void 0)return r;if(e.state===3)return r.push({kind:"waiting",from:n}),r;let s=Math.min(n+u,o??1/0);return u>0&&r.push({kind:"waiting",from:n,to:s}),r.push({kind:"running",from:s,...o===void 0?{}:{to:o}}),r}function qc(e){let t=e.ending.value,[n,o]=[we(e.startTime),we(e.endTime)],u={id:e.callId,tool:e.tool,title:e.title,summary:e.summary,state:e.state,reason:e.ending.case==="failed"?e.ending.value.reason:0,outcome:e.ending.case==="completed"?$c(e.ending.value):"",workspace:e.context?.workspace??"",session:e.context?.sessionId??"",agent:e.context?.agent??"",requester:e.requester,parent:e.context?.parentCallId??"",created:we(e.createTime)??Date.now(),...n===void 0?{}:{started:n},...o===void 0?{}:{ended:o},queued:Pn(t?.timing?.queued),waited:Pn(t?.timing?.waited),ran:Pn(t?.timing?.ran),background:e.backgroundProcesses.length,lastSequence:e.lastSequence};return{...u,spans:Bc(u),exact:Je(u.state)&&u.waited===0}}function kn(e){let t=qc(e),n=Q.get(t.id),o=n?.exact?{...t,spans:Xs(n.spans,t),exact:!0}:t;return Q.set(o.id,o),So(),o}function Xs(e,t){let n=e.at(-1);return n===void 0||n.to!==void 0||!Je(t.state)||t.ended===void 0?e:[...e.slice(0,-1),{...n,to:t.ended}]}var Wc={1:"queued",2:"running",3:"waiting"};function Nt(e,t,n){let o=e.at(-1),u=Wc[t];if(o?.to===void 0&&o?.kind===u)return e;let r=o===void 0||o.to!==void 0?e:[...e.slice(0,-1),{...o,to:n}];return u===void 0?r:[...r,{kind:u,from:n}]}function zs(e){if(e.event.case!=="callStateChanged")return;let{callId:t,tool:n,state:o,title:u,summary:r}=e.event.value,s=we(e.eventTime)??Date.now(),a=Q.get(t);if(a===void 0)Q.set(t,{id:t,tool:n,title:u,summary:r,state:o,reason:0,outcome:"",workspace:e.workspace,session:e.sessionId,agent:"",requester:"",parent:"",created:s,queued:0,waited:0,ran:0,background:0,lastSequence:0n,spans:Nt([],o,s),exact:o===1});else if(!Je(a.state)){let i=Je(o)?{ended:s}:{};Q.set(t,{...a,state:o,...i,spans:Nt(a.spans,o,s)})}Oe.add(t),So()}async function Zs(e){for(;!e.aborted;){if(await new Promise(n=>setTimeout(n,Vc)),Oe.size===0)continue;let t=[...Oe];Oe.clear();try{await Hc(t,e)}catch(n){for(let o of t)Oe.add(o);throw n}}}async function Hc(e,t){let n=new Set(e),o=Math.min(vo,e.length+16),{calls:u}=await me.listCalls({workspace:fe,pageSize:o},{signal:t});for(let r of u)n.delete(r.callId)&&kn(r);for(let[r,s]of[...n].entries())r>=Fc?Oe.add(s):await Kc(s,t)}async function Kc(e,t){let{call:n}=await me.getCall({callId:e},{signal:t}).catch(()=>({call:void 0}));n!==void 0&&kn(n)}async function Qs(e){let t=new Set(Mn.filter(g=>!Je(g.state)).map(g=>g.id)),n=Ks.peek(),o=async(g,c)=>{let[m,h]=[c,""];for(let b=0;b<Uc&&m>0;b++){let _=await me.listCalls({workspace:fe,states:g,pageSize:m,pageToken:h},{signal:e});for(let y of _.calls)kn(y);if(m-=_.calls.length,h=_.nextPageToken,h==="")return}},u=me.listCalls({workspace:fe,pageSize:n?vo:Mc},{signal:e}),r=[o([1,2,3],kc),o([5],Gc)],[s]=await Promise.all([u,...r]),a=s,i=0,l=1/0,p=()=>{let g=a.calls.filter(c=>{let m=Q.get(c.callId);return t.delete(c.callId),m===void 0||!Je(m.state)});for(let c of a.calls)kn(c),l=Math.min(l,we(c.createTime)??l);return i+=a.calls.length,g.length>0},d=p();return Ks.value=!0,async()=>{for(;a.nextPageToken!==""&&i<Dc&&(d||!n);){let g={workspace:fe,pageSize:vo,pageToken:a.nextPageToken};a=await me.listCalls(g,{signal:e}),d=p()}a.nextPageToken===""?[yo.value,St.value]=[!1,-1/0]:(!n||d)&&([yo.value,St.value]=[!0,Number.isFinite(l)?l:St.value]);for(let g of t)Oe.add(g)}}var _o=new Set;async function Th(e){let t=`${e.id} ${e.state}`;if(e.exact||_o.has(t))return;_o.add(t);let n=new AbortController,o=[{kind:"queued",from:e.created}],u=2e3;try{let r={callId:e.id,output:3};for await(let{event:a}of me.watchCall(r,{signal:n.signal})){let i=we(a?.eventTime)??e.created,l=a?.event.case;if((l==="running"||l==="resumed")&&(o=Nt(o,2,i)),l==="waiting"&&(o=Nt(o,3,i)),(l==="completed"||l==="failed")&&(o=Nt(o,4,i)),u-=1,u===0||l==="heartbeat"||a!==void 0&&a.sequence>=e.lastSequence)break}let s=Q.get(e.id);s!==void 0&&u>0&&(Q.set(e.id,{...s,spans:Xs(o,s),exact:!0}),So())}catch{_o.delete(t)}finally{n.abort()}}var Un=E(void 0),ea=E(new Map),Yc=E(0);function ta(e,t){ea.value=new Map(ea.value).set(e,t)}var Xe,Gn="";async function jc(e){let t=await Qs(e);Un.value=await ao.getServerInfo({},{signal:e}),await t(),await Zs(e)}function Jc(e){ao.getServerInfo({},{signal:e}).then(t=>Un.value=t,()=>{})}async function Oh({signal:e,alive:t}){let n=new AbortController,o=AbortSignal.any([e,n.signal]),u,r=()=>{t(),jc(o).catch(s=>{u=s,n.abort()})};try{let a={workspace:fe,...Gn!==""?{resumeToken:Gn}:Xe===void 0?{}:{afterSequence:Xe}};for await(let{event:i,resumeToken:l}of Ls.watchEvents(a,{signal:o,onHeader:r}))t(),Gn=l,i!==void 0&&((i.event.case==="heartbeat"||i.event.case==="workspaceChanged")&&Jc(o),(Xe===void 0||i.sequence>Xe)&&(Xe=i.sequence),zs(i),i.event.case==="todosUpdated"&&ta(i.sessionId,i.event.value.todos),i.event.case==="sessionEnded"&&ta(i.sessionId,[]),i.event.case==="promptEnded"&&(Yc.value+=1))}catch(s){throw[v.OutOfRange,v.InvalidArgument].includes(S.from(s).code)&&(Xe=void 0,Gn=""),u??s}finally{n.abort()}}var Xc=Symbol.for("pv"),zc=0;function ze(e,t,n,o,u,r){t||(t={});var s,a,i=t;if("ref"in i&&typeof e!="function")for(a in i={},t)a=="ref"?s=t[a]:i[a]=t[a];var l={type:e,props:i,key:n,ref:s,__k:null,__:null,__b:0,__e:null,__c:null,constructor:Xc,__v:--zc,__i:-1,__u:0};return(u||r)&&(l.__source=u,l.__self=r),R.vnode&&R.vnode(l),l}var Zc=E(Date.now());setInterval(()=>{document.hidden||(Zc.value=Date.now())},1e3);var Tt=E(""),oa=E(""),ua=E(""),ra=E(""),sa=E(""),aa=E(""),ia=E(""),Qc={all:[],open:[1,2,3],waiting:[3],failed:[5],completed:[4]},la=E("all"),na=e=>e===""?void 0:new Date(e).getTime(),ep=$(()=>({workspace:Tt.value,session:oa.value,words:ua.value.toLowerCase().split(/\s+/).filter(e=>e!==""),tool:ra.value.trim(),agent:sa.value.trim(),states:Qc[la.value]??[],since:na(aa.value),until:na(ia.value)})),Vh=$(()=>{let{session:e,words:t,tool:n,agent:o,states:u,since:r,until:s}=ep.value;return[e,n,o].some(a=>a!=="")||[t,u].some(a=>a.length>0)||(r??s)!==void 0});function $h(){for(let e of[oa,ua,ra,sa,aa,ia])e.value="";la.value="all"}function Bh(e,t){if(t.workspace!==""&&e.workspace!==t.workspace||t.session!==""&&e.session!==t.session||t.tool!==""&&e.tool!==t.tool||t.agent!==""&&e.agent!==t.agent||t.states.length>0&&!t.states.includes(e.state)||t.since!==void 0&&e.created<t.since||t.until!==void 0&&e.created>=t.until)return!1;if(t.words.length===0)return!0;let n=`${e.tool}
${e.title}
${e.summary}
${e.id}`.toLowerCase();return t.words.every(o=>n.includes(o))}var qh=$(()=>{Eo.value;let e=new Set;for(let t of js())(Tt.value===""||t.workspace===Tt.value)&&e.add(t.session);return[...e]});var ca="toolgate.keys",pa=E(sessionStorage.getItem(ca)!=="off");function Kh(e){pa.value=e,sessionStorage.setItem(ca,e?"on":"off")}var Fn=[];function Yh(e){return Fn.push(e),()=>{Fn.splice(Fn.indexOf(e),1)}}function fa(e){return e instanceof HTMLElement?e.isContentEditable||e instanceof HTMLTextAreaElement||e instanceof HTMLSelectElement?!0:e instanceof HTMLInputElement&&!["checkbox","radio","button"].includes(e.type):!1}var tp=2e3,Pe;function np(e){return fa(e.target)?(Pe=e.key==="Escape"||e.key==="Enter"&&e.target instanceof HTMLInputElement?void 0:{field:e.target,time:e.timeStamp},!1):Pe===void 0||Pe.field.isConnected||e.timeStamp-Pe.time>tp?(Pe=void 0,!1):(Pe.time=e.timeStamp,!0)}document.addEventListener("pointerdown",()=>Pe=void 0);document.addEventListener("keydown",e=>{if(np(e)||!pa.value||e.defaultPrevented||e.ctrlKey||e.altKey||e.metaKey||e.repeat||fa(e.target)||document.querySelector("dialog[open]")!==null)return;Fn.findLast(n=>n(e.key,e))!==void 0&&e.preventDefault()});var Vn={0:["unknown","?","idle"],1:["queued","…","idle"],2:["running","▶","run"],3:["waiting","‖","warn"],4:["completed","✓","good"],5:["failed","✕","bad"]};function op({state:e,reason:t,outcome:n}){if(n!=="")return n;let[o]=Vn[e]??Vn[0];return e===5&&t!==0?Js(t):o}function zh({state:e,reason:t,outcome:n}){let[,o,u]=n===""?Vn[e]??Vn[0]:["","!","warn"];return ze("span",{class:`tag ${u}`,children:[ze("span",{"aria-hidden":"true",children:o})," ",op({state:e,reason:t,outcome:n})]})}function n_(e,t=160){let{title:n,summary:o}=e,r=n.includes(o)||n!==""&&o.endsWith(`/${n}`)?n:n===""||o.startsWith(n)?o:`${n} · ${o}`;if(r!=="")return ue(r,t);let s=Hs.value.get(e.id);return s===void 0?"":ue(Dn(s),t)}function up(){return Tt.value===""&&(Un.value?.workspaces.length??0)>1}function a_({of:e}){return up()&&e!==""?ze("span",{class:"tag",children:ue(e,40)}):null}async function rp(e){if(isSecureContext)return navigator.clipboard.writeText(e);let t=document.createElement("textarea");t.value=e,t.className="sr",document.body.append(t),t.select();let n=document.execCommand("copy");if(t.remove(),!n)throw new Error("the browser does not let the page copy")}function p_(e,t="Copied."){rp(e).then(()=>de(t),n=>de(`This could not be copied: ${String(n)}`))}function f_(e,t){let n=URL.createObjectURL(new Blob(t,{type:"application/octet-stream"})),o=document.createElement("a");o.href=n,o.download=e.replace(/[^\w.-]+/g,"-"),o.click(),setTimeout(()=>URL.revokeObjectURL(n),6e4)}export{ae as a,sp as b,Ho as c,Sa as d,lp as e,Na as f,Mt as g,ot as h,E as i,$ as j,ne as k,v as l,T as m,O as n,w as o,q as p,n1 as q,Ve as r,S as s,Ye as t,he as u,Pg as v,tc as w,xs as x,je as y,_e as z,nc as A,fe as B,yt as C,wn as D,Ib as E,xb as F,Rb as G,Cn as H,On as I,me as J,so as K,Ls as L,we as M,Pn as N,Ab as O,lc as P,cc as Q,Lb as R,Ms as S,kb as T,Ln as U,de as V,gc as W,Us as X,bc as Y,Fs as Z,hc as _,_c as $,po as aa,Wb as ba,Et as ca,Yb as da,mo as ea,Ws as fa,Sc as ga,Nc as ha,Jb as ia,ue as ja,Tc as ka,Ic as la,Xb as ma,zb as na,qs as oa,Zb as pa,Qb as qa,re as ra,mh as sa,Hs as ta,Dn as ua,dh as va,gh as wa,bh as xa,Eo as ya,Ks as za,yo as Aa,St as Ba,js as Ca,Nh as Da,Je as Ea,$c as Fa,Js as Ga,qc as Ha,kn as Ia,Th as Ja,Un as Ka,ea as La,Yc as Ma,ta as Na,Oh as Oa,Zc as Pa,Tt as Qa,oa as Ra,ua as Sa,ra as Ta,sa as Ua,aa as Va,ia as Wa,la as Xa,ep as Ya,Vh as Za,$h as _a,Bh as $a,qh as ab,pa as bb,Kh as cb,Yh as db,rp as eb,p_ as fb,f_ as gb,ze as hb,op as ib,zh as jb,n_ as kb,a_ as lb};
