// The terminal emulator, in a file of its own: only who looks at a terminal loads it. It draws into memory; the renderers
// of xterm.js write style sheets of their own, which the policy of the page forbids.

export { Terminal } from "@xterm/headless";
