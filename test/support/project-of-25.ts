import { answeredByCode } from './project-of-25/answered-by-code.ts';
import { sendingRequests } from './project-of-25/sending-requests.ts';
import { withActions } from './project-of-25/with-actions.ts';
import { withoutRequests } from './project-of-25/without-requests.ts';
import type { RepositoryFiles } from './project-of-25/workflow-folder.ts';

/** The folder that a ZIP of a branch is in: repository and branch, slashes of the branch as dashes. */
export const branchFolder = 'nursery-automations-dev-kim-4f9a2c';

/**
 * A synced repository of a nursery with 25 workflows, written for the tests: every key and every odd form that such repositories have, and
 * code of every kind. Files by their paths, as a clone of a branch has them. `world`: the URL that its requests go to.
 */
export function projectOf25(world: string): RepositoryFiles {
  return {
    'README.md': '# Nursery automations\n',
    ...answeredByCode(),
    ...withActions(),
    ...sendingRequests(world),
    ...withoutRequests(),
  };
}

/** The variables that its workflows read, one in each of nine. */
export const variablesOf25: Readonly<Record<string, string>> = {
  CURRENCY: 'EUR',
  SHOP_ID: '7',
  LABEL_PREFIX: 'N°',
  STAMP_ZONE: 'Europe/Berlin',
  WAREHOUSE_URL: '',
  REPORT_URL: 'https://reports.example/rows',
  RETENTION_DAYS: '5',
  SUPPORT_NAME: 'Nursery',
  WEEK_START: 'Monday',
};

/** The secrets that stand in clear in it. */
export const secretsOf25 = [
  'large-orders-bearer-in-clear',
  'stock-password-in-clear',
  'note-query-in-clear',
  'note-header-in-clear',
];

/** A package of the npm registry that has an action at the version that a workflow names, and one that code imports. */
export const packagesOf25 = [
  {
    name: '@nursery/greenhouse',
    version: '1.0.0',
    files: {
      'actions/water-plan/water-plan.mjs': `import { round } from "../../common/round.mjs";
export default { key: "greenhouse-water-plan", name: "Plan the water", version: "0.0.3", type: "action",
  props: { plants: { type: "string[]" }, litres: { type: "string" } },
  run() {
    const litres = Number(this.litres);
    return { total: round(litres * this.plants.length), per_plant: this.plants.map((plant) => plant + ": " + litres) };
  } };`,
      'common/round.mjs': 'export const round = (number) => Math.round(number * 100) / 100;',
    },
  },
  {
    name: 'nursery-words',
    version: '1.2.0',
    manifest: { main: 'index.js' },
    files: {
      'index.js':
        'exports.titleCase = (text) => text.replace(/\\b[a-z]/g, (letter) => letter.toUpperCase());',
    },
  },
];

/** Commits of a Git repository whose first one has the action at the version that a workflow names. */
export function commitsOf25(world: string): RepositoryFiles[] {
  const action = (version: string, path: string) => `import catalog from "../../catalog.app.mjs";
export default { key: "catalog-find-item", name: "Find an item", version: "${version}", type: "action",
  props: { catalog, query: { type: "string" } },
  async run({ $ }) { return this.catalog.get($, "${path}", { q: this.query }); } };`;
  return [
    {
      'components/catalog/package.json':
        '{ "name": "@nursery/catalog", "dependencies": { "@pipedream/platform": "^3.0.0" } }',
      'components/catalog/catalog.app.mjs': `import { axios } from "@pipedream/platform";
export default { type: "app", app: "catalog", propDefinitions: {}, methods: {
  get($, path, params) { return axios($, { url: "${world}" + path, params, headers: { "x-catalog-key": this.$auth.api_key } }); },
} };`,
      'components/catalog/actions/find-item/find-item.mjs': action('0.0.1', '/catalog/v1'),
    },
    { 'components/catalog/actions/find-item/find-item.mjs': action('0.0.2', '/catalog/v2') },
  ];
}
