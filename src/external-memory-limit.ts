import { setFlagsFromString } from 'node:v8';

/**
 * Lets the memory of buffers, outside of V8's heap, grow with the heap before V8 looks for garbage in all of it. By itself it does so after each 64 MB,
 * which events and answers of some MB allocate several times a second: it then took a third of the time of the event loop (bench `floods`, `first
 * events`: 60 collections in eight seconds, now 19, and calls of others 147 ms at the 99th percentile, now 90; 100 MB more meanwhile).
 * It holds for all threads of the process.
 */
export function growExternalMemoryLimit(): void {
  setFlagsFromString('--external-memory-accounted-in-global-limit');
}
