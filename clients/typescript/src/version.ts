/** What the library says of itself. */

/** The name and the version of this library, as calls record them. */
export const CLIENT_NAME = "toolgate-typescript/0.1.0";
