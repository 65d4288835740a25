import { mkdirSync, readSync, writeSync } from 'node:fs';
import { rm } from 'node:fs/promises';

/**
 * Functions that the harness needs, taken before user code can replace them. A component that overwrites `JSON` or a timer only breaks itself;
 * its calls still end with an outcome.
 */
export const jsonParse = JSON.parse;
export const jsonStringify = JSON.stringify;
export const setTimer = setTimeout;
export const nextTick = process.nextTick.bind(process);
export const now = Date.now;
export const byteLength = Buffer.byteLength;
export const makeFolder = mkdirSync;
export const removeFolder = rm;
export const readBytes = readSync;
export const writeBytes = writeSync;
export const exitProcess = process.exit.bind(process);
