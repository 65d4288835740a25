/** What the stories of the manual share: which pages there are, and a reader who does what each of them says. */
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { blocksOf } from './manual-blocks.ts';
import { ManualSession } from './manual-session.ts';
import { Millrace } from './millrace.ts';
import { startNpmRegistry } from './npm-registry.ts';
import { projectFiles, readProjectFile } from './project-files.ts';
import { createTempFolder, type TempFolder } from './temp-folder.ts';

/** Pages on which every block is a file, a command, its output, or marked as not run. Each page is tested on its own. */
export const manualPages = projectFiles().filter(
  (file) =>
    /^docs\/guides\/.*\.md$/.test(file) ||
    ['README.md', 'docs/tutorial.md', 'docs/components.md', 'docs/apps.md', 'docs/reference/api.md'].includes(
      file,
    ),
);

/** The page on which `bin/millrace` of the project starts the command line from its sources, as those do who have a clone. */
const pageOfClones = 'README.md';

const runBlocksOf = (page: string) =>
  blocksOf(page, readProjectFile(page)).filter(({ marks }) => !marks.has('not-run'));

/** One half of the pages with blocks that are run, so that two files take half of the time each. */
export function halfOfPages(half: 0 | 1): string[] {
  return manualPages.filter((page) => runBlocksOf(page).length > 0).filter((_, at) => at % 2 === half);
}

/** In place of what is published: the same names, and components that say what the manual shows. */
const published = (version: string) => ({
  name: '@pipedream/slack',
  version,
  files: {
    'slack.app.mjs': 'export default { type: "app", app: "slack", propDefinitions: {}, methods: {} };',
    'actions/send-message/send-message.mjs': `import slack from "../../slack.app.mjs";
      export default { key: "slack-send-message", name: "Send Message", version: "${version === '0.10.3' ? '0.0.19' : '0.0.20'}", type: "action",
        description: "Sends a message", props: { slack, text: { type: "string" } }, run() { return this.text; } };`,
    'sources/new-message/new-message.mjs': `import slack from "../../slack.app.mjs";
      export default { key: "slack-new-message-in-channels", name: "New Message In Channels", version: "0.0.1", type: "source",
        description: "Emits each message", props: { slack, http: "$.interface.http" }, run({ body }) { this.$emit(body); } };`,
  },
});

/** A page has up to forty commands, one after another. Each of them has a limit of its own. */
const pagePatienceMs = 900_000;

export interface ManualService {
  /** Only inside tests and hooks. */
  readonly service: Millrace;
  /** Only inside tests and hooks. */
  readonly folder: string;
}

/** A service that has what the manual shows, for the suite that calls this. */
export function useManualService(): ManualService {
  let folder: TempFolder;
  let registry: Awaited<ReturnType<typeof startNpmRegistry>>;
  let service: Millrace;
  before(async () => {
    folder = await createTempFolder('manual');
    registry = await startNpmRegistry(() => [published('0.10.3'), published('0.11.0')]);
    service = await Millrace.start({
      dataFolder: join(folder.path, 'data'),
      environment: { MILLRACE_NPM_REGISTRY: registry.url },
    });
  });
  after(async () => {
    await service?.stop();
    await registry?.close();
    await folder?.remove();
  });
  return {
    get service() {
      return service;
    },
    get folder() {
      return folder.path;
    },
  };
}

/** A test per page: what it says to do works, and prints what it says. */
export function testPages(pages: readonly string[], manual: ManualService): void {
  for (const page of pages)
    test(`${page}: what it says to do works, and prints what it says`, {
      timeout: pagePatienceMs,
    }, async () => {
      const place = join(manual.folder, page.replaceAll('/', '-'));
      await mkdir(place);
      const commandLine = page === pageOfClones ? 'of the project' : 'bundled';
      const session = await ManualSession.start(place, manual.service, commandLine);
      try {
        for (const block of runBlocksOf(page)) {
          await session.follow(block).catch((error: unknown) => {
            throw new Error(`${block.place}: ${(error as Error).message}`, { cause: error });
          });
        }
      } finally {
        await session.end();
        await removeVariables(manual.service);
      }
    });
}

/** The next page lists its own. */
async function removeVariables(service: Millrace): Promise<void> {
  const { body } = await service.api('GET', '/v1/variables?limit=100');
  for (const { name } of body.data) await service.api('DELETE', `/v1/variables/${name}`);
}
