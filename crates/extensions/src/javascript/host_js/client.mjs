// Stands in for the client of OpenCode's own server. What it asks of sessions, messages and agents the service answers from
// what it has stored; what only OpenCode has is refused, and the service is told that it was wanted.
import { isObject } from "./answer.mjs";

const NOT_FOUND = 404;

// Here, without the service.
const LOCAL = {
  "app.log": ({ body }) => {
    console.error(body.message ?? "");
    return true;
  },
  "tui.showToast": ({ body }) => {
    console.error(["toast:", body.title, body.message].filter(Boolean).join(" "));
    return true;
  },
  "config.get": (_, spec) => spec.config,
  "project.current": (_, __, project) => project,
  "project.list": (_, __, project) => [project],
  "path.get": (_, { workspace: { directory, worktree } }) => ({ state: "", config: "", worktree, directory }),
};

const SERVED = new Set([
  "app.agents",
  "session.children",
  "session.create",
  "session.get",
  "session.list",
  "session.messages",
  "session.status",
  "session.todo",
]);

// Both generations of OpenCode's client: one has its parameters in `path`, `query` and `body`, the other all at one place.
function parameters(request = {}) {
  if (!isObject(request)) return {};
  const { path, query, body, ...flat } = request;
  const all = { ...flat, ...(isObject(query) ? query : {}), ...(isObject(path) ? path : {}) };
  const content = isObject(body) ? body : flat;
  const number = Number(all.limit);
  return {
    session: [all.sessionID, all.id].find((id) => typeof id === "string"),
    limit: Number.isInteger(number) && number > 0 ? number : undefined,
    parentID: typeof content.parentID === "string" ? content.parentID : undefined,
    title: typeof content.title === "string" ? content.title : undefined,
    body: content,
  };
}

// `ask` asks the service, and `note` tells it what was wanted and is not there.
export function client(spec, project, ask, note) {
  // The client is an object, as OpenCode's; what is found in it may be called.
  const at = (path) =>
    new Proxy(path.length === 0 ? {} : function () {}, {
      get: (_, key) => (typeof key === "symbol" || key === "then" ? undefined : at([...path, key])),
      apply: (_, __, [request, options]) => call(path.join("."), request, options),
    });
  async function call(name, request, options) {
    const params = parameters(request);
    if (Object.hasOwn(LOCAL, name)) return answer(LOCAL[name](params, spec, project));
    if (!SERVED.has(name)) {
      note(`client.${name}`);
      throw new Error(`client.${name} is not available: the service runs tools and has no server of OpenCode's.`);
    }
    const { body: _, ...asked } = params;
    const { data, missing } = await ask(name, asked);
    if (missing === undefined) return answer(data);
    const error = { name: "NotFoundError", data: { message: missing } };
    if (options?.throwOnError || request?.throwOnError) throw Object.assign(new Error(missing), error);
    return { data: undefined, error, request: {}, response: { ok: false, status: NOT_FOUND } };
  }
  return at([]);
}

const answer = (data) => ({ data, error: undefined, request: {}, response: { ok: true, status: 200 } });
