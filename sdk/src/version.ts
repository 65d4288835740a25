/** Of this client; the same as in its package.json, which a test checks. */
export const clientVersion = '0.1.0';
