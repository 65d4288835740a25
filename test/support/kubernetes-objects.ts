import assert from 'node:assert/strict';
import { parseAllDocuments } from 'yaml';

/** An object of a Kubernetes manifest, as far as tests read it. */
export interface KubernetesObject {
  apiVersion: string;
  kind: string;
  metadata: { name: string; labels?: Labels; annotations?: Labels };
  data?: Record<string, string>;
  // biome-ignore lint/suspicious/noExplicitAny: each kind has its own; a path that is not there fails the test that reads it.
  spec?: any;
}
type Labels = Record<string, string>;

/** All objects of a file with documents of YAML 1.1, in which Kubernetes reads 0440 as octal. */
export function readObjects(text: string): KubernetesObject[] {
  return parseAllDocuments(text, { version: '1.1' })
    .map((document) => {
      assert.deepEqual(document.errors, []);
      return document.toJS() as KubernetesObject | null;
    })
    .filter((object) => object !== null);
}

export function ofKind(objects: readonly KubernetesObject[], kind: string): KubernetesObject[] {
  return objects.filter((object) => object.kind === kind);
}

/** True when the selector takes pods with these labels. */
export function selects(selector: Labels, labels: Labels): boolean {
  return Object.entries(selector).every(([name, value]) => labels[name] === value);
}
