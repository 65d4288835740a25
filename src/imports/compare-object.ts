import { findComponent } from '#components/component-store.ts';
import { definitionsOf } from '#sources/source-shape.ts';
import type { ComponentTable } from '#storage/tables/component-tables.ts';
import type { WebhookTable } from '#storage/tables/delivery-tables.ts';
import type { SourceTable } from '#storage/tables/source-tables.ts';
import { makeRedactor } from '#vault/redact.ts';
import { type CompareOptions, comparedProps } from './compared-props.ts';
import type { MappedSource } from './map-source.ts';
import type { ForeignWebhook } from './project.ts';
import { type ComparedPart, changesBetween, type ReportedChanges } from './report-changes.ts';

/** How a source that is here differs from the one that is imported. Secrets are opened to be compared, and never shown. */
export async function compareSource(
  options: CompareOptions,
  source: SourceTable,
  { name, component, props }: MappedSource,
): Promise<ReportedChanges> {
  const present = await findComponent(options.db, source.component_id);
  const definitions = present === undefined ? [] : definitionsOf(present, source);
  const { here, there, secretProps, secrets } = await comparedProps(options, source, { definitions, props });
  const { key, component_code: code } = component ?? {};
  const part = (fields: ComparedPart['fields'], text: string | undefined): ComparedPart => ({
    ...{ place: '', fields, code: text, secretProps },
  });
  return changesBetween(
    [
      part(
        { name: source.name, ...(key === undefined ? {} : { component: nameOf(present, key) }), props: here },
        code === undefined ? undefined : present?.code,
      ),
    ],
    [part({ name, ...(key === undefined ? {} : { component: key }), props: there }, code)],
    makeRedactor(secrets),
  );
}

/** As the import names it: by its key with or without a version. */
function nameOf(component: ComponentTable | undefined, wanted: string): string | undefined {
  if (component?.component_key == null) return component?.id;
  const { component_key: key, version } = component;
  return wanted.includes('@') ? `${key}@${version}` : key;
}

export function compareWebhook(webhook: WebhookTable, foreign: ForeignWebhook): ReportedChanges {
  const part = ({ url, name, description }: Pick<ForeignWebhook, 'url' | 'name' | 'description'>) => ({
    ...{ place: '', secretProps: [], code: undefined },
    fields: { url, ...(name === null ? {} : { name }), ...(description === null ? {} : { description }) },
  });
  return changesBetween([part(webhook)], [part(foreign)], (text) => text);
}
