import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { type BuildOptions, build, type Plugin } from 'esbuild';
import { builderProgramNames, builderProgramOf, npmInside } from '#components/builder-programs.ts';
import { launcherProgram } from '#runner/launcher.ts';
import { bundleProgram } from '#runner/program-file.ts';
import { sandboxProgram } from '#runner/sandbox-program.ts';

/** Entry points of the service and the command line, by the name of their file in `lib`. */
const entryPoints = {
  main: 'src/main.ts',
  admin: 'src/admin.ts',
  cli: 'cli/main.ts',
  'sqlite-thread': 'src/storage/sqlite-thread.mjs',
  'mail-thread': 'src/ingress/mail-thread.ts',
  'redact-thread': 'src/vault/redact-thread.ts',
  'reader-thread': 'src/imports/reader-thread.ts',
};

/** Packages that stay packages: esbuild looks for its program beside itself, and nothing here uses the other. */
export const externalPackages = ['esbuild', 'pg-native'];

/** Files that bundled packages read beside themselves, by package. They are copied to `lib/files/<package>`. */
const filesBeside: Readonly<Record<string, readonly string[]>> = {
  '@fastify/swagger-ui': [
    ...['csp.json', 'favicon-16x16.png', 'favicon-32x32.png', 'index.css', 'index.html', 'logo.svg'],
    ...['oauth2-redirect.html', 'oauth2-redirect.js', 'swagger-ui-bundle.js', 'swagger-ui.css'],
    'swagger-ui-standalone-preset.js',
  ].map((name) => `static/${name}`),
};

/** Whitespace costs memory for as long as the service runs; names stay, and with them stack traces that can be read. */
const small = {
  minifyWhitespace: true,
  minifySyntax: true,
  // Node prints the line that an error comes from.
  lineLimit: 200,
  legalComments: 'none',
} as const satisfies BuildOptions;

/** Bundles all programs into `lib`, below the folder of the package. */
export async function bundlePrograms(root: string, folder: string): Promise<void> {
  const lib = join(folder, 'lib');
  await build({
    absWorkingDir: root,
    entryPoints,
    outdir: lib,
    outExtension: { '.js': '.mjs' },
    bundle: true,
    splitting: true,
    format: 'esm',
    platform: 'node',
    target: 'node26',
    external: externalPackages,
    banner: { js: nodeNames },
    // The service asks npm for the address of its registry; all else that is npm's is in the builder programs.
    plugins: [npmInside(['npm-registry-fetch/lib/default-opts.js']), besideBundle(root)],
    logLevel: 'silent',
    ...small,
  });
  for (const [name, files] of Object.entries(filesBeside)) {
    for (const file of files) {
      const target = join(lib, 'files', name, file);
      await mkdir(dirname(target), { recursive: true });
      await writeFile(target, await readFile(join(root, 'node_modules', name, file)));
    }
  }
  await mkdir(join(lib, 'programs'), { recursive: true });
  for (const program of [launcherProgram, sandboxProgram, ...builderProgramNames.map(builderProgramOf)]) {
    const text = await bundleProgram({ ...program, bundling: { ...program.bundling, ...small } });
    await writeFile(join(lib, 'programs', `${program.name}.cjs`), text);
  }
}

/** What CommonJS packages find in every file, for a bundle that is an ES module. */
const nodeNames = [
  "import { createRequire as createRequireOfBundle } from 'node:module';",
  'const require = createRequireOfBundle(import.meta.url);',
  "const folderOfBundle = import.meta.dirname + '/files/';",
].join('');

/** Packages that read files beside themselves find them in `files`, beside the bundle. */
function besideBundle(root: string): Plugin {
  const modules = join(root, 'node_modules');
  return {
    name: 'beside the bundle',
    setup({ onLoad }) {
      onLoad({ filter: /[/\\]node_modules[/\\].*\.c?js$/ }, async ({ path }) => {
        const text = await readFile(path, 'utf8');
        if (!text.includes('__dirname')) return undefined;
        const place = `folderOfBundle + ${JSON.stringify(relative(modules, dirname(path)))}`;
        return { contents: text.replace(/\b__dirname\b/g, `(${place})`), loader: 'js' };
      });
    },
  };
}
