/**
 * What a component gets for `import … from '@pipedream/platform'` (also under the older name `@pipedreamhq/platform`).
 * Written here from the documented behaviour. It is bundled into components, so it and the files it exports from may
 * import npm `axios` and Node's own modules, and nothing of this service.
 */
import * as platform from './platform-names.ts';

export * from './platform-names.ts';

/** For `import platform from '@pipedream/platform'`: what `require` gives. */
export default platform;
