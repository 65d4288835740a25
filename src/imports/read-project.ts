import type { ForeignProject } from './project.ts';
import { manifestPathOf, type ProjectFiles } from './project-files.ts';
import { readProjectExport } from './read-project-export.ts';
import { readSyncedRepository } from './read-synced-repository.ts';

/** Reads a project in whichever form it comes. Throws CallerError `invalid_import`. */
export function readProject(files: ProjectFiles): ForeignProject {
  return manifestPathOf([...files.keys()]) === undefined
    ? readSyncedRepository(files)
    : readProjectExport(files);
}
