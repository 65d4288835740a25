/** The version of this client; a test keeps it equal to its package.json. */
export const clientVersion = '0.1.0';
