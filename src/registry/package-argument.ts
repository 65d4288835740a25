import { resolve } from 'node:path';

/** A package as named on a command line; `folder` is absolute. */
export type PackageArgument = { folder: string } | { name: string; version?: string };

/** A path begins with a dot, a slash or a drive, or is one: names of packages do not. `folder`: where relative ones begin. */
export function readPackageArgument(folder: string, argument: string): PackageArgument {
  if (/^\.{0,2}[/\\]|^\.{1,2}$|^[a-z]:[/\\]/i.test(argument)) return { folder: resolve(folder, argument) };
  const at = argument.indexOf('@', 1);
  if (at === -1) return { name: argument };
  return { name: argument.slice(0, at), version: argument.slice(at + 1) };
}
