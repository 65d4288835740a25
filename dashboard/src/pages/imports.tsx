import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useRef, useState } from 'react';
import { Link, useLocation } from 'wouter';
import type { Import, ImportSummary } from '#sdk';
import { api } from '~/api/client.ts';
import { useImports } from '~/api/import-queries.ts';
import type { Data } from '~/api/queries.ts';
import { useMayWrite } from '~/api/rights.ts';
import { useProjects } from '~/api/workspace-queries.ts';
import { Ago, useNow } from '~/parts/ago.tsx';
import { type ArchiveFile, readArchiveFile } from '~/parts/archive-file.ts';
import { Field, fieldAttributes } from '~/parts/field.tsx';
import { formatBytes, formatNumber } from '~/parts/format.ts';
import { ImportQuestions } from '~/parts/import-questions/import-questions.tsx';
import { type ChosenAccounts, questionsOf } from '~/parts/import-questions/question.ts';
import { ImportCounts, ImportedObjects, ImportedWorkflows, NeededForAll } from '~/parts/import-report.tsx';
import { ImportState } from '~/parts/import-state.tsx';
import { useOwner } from '~/parts/owner.tsx';
import { Empty, Loading, PageFrame } from '~/parts/page.tsx';
import { shortened, visible } from '~/parts/plain-text.ts';
import { Problem } from '~/parts/problem.tsx';
import { ReadMore } from '~/parts/read-more.tsx';

/** What the import is made of: kept here until it starts, because a dry run stores nothing. */
interface Planned {
  archive: ArchiveFile;
  projectId: string;
  plan: Import;
}

export function ImportsPage() {
  const { ownerId } = useOwner();
  const mayWrite = useMayWrite(ownerId);
  return (
    <PageFrame
      title="Import from Pipedream"
      lead={
        <p className="muted">
          Bring the workflows of a synced repository or a project export here. First see what would be done;
          no workflow is made until you import.
        </p>
      }
    >
      {mayWrite === undefined && <Loading />}
      {/* What is planned for one owner is not for another. */}
      {mayWrite === true && <NewImport key={ownerId} ownerId={ownerId} />}
      {mayWrite === false && <EarlierImports ownerId={ownerId} mayWrite={false} />}
    </PageFrame>
  );
}

interface ImportOptions {
  dry_run?: boolean;
  activate?: boolean;
  accounts?: ChosenAccounts;
}

/** The archive is the body itself, and the rest stands in the query. */
async function sendImport(
  ownerId: string,
  { archive, projectId }: Pick<Planned, 'archive' | 'projectId'>,
  { accounts = {}, ...options }: ImportOptions,
  signal?: AbortSignal,
): Promise<Import> {
  const pairs = Object.entries(accounts).map(([name, id]) => `${name}=${id}`);
  const { data } = await api<Data<Import>>('POST', '/v1/imports', {
    query: {
      ...options,
      org_id: ownerId.startsWith('o_') ? ownerId : undefined,
      project_id: projectId,
      accounts: pairs.join(','),
    },
    body: archive.content,
    ...(signal === undefined ? {} : { signal }),
  });
  return data;
}

function NewImport({ ownerId }: { ownerId: string }) {
  const [planned, setPlanned] = useState<Planned>();
  if (planned !== undefined)
    return (
      <Plan
        ownerId={ownerId}
        planned={planned}
        onPlan={(plan) => setPlanned({ ...planned, plan })}
        onLeave={() => setPlanned(undefined)}
      />
    );
  return (
    <>
      <ChooseArchive ownerId={ownerId} onPlanned={setPlanned} />
      <EarlierImports ownerId={ownerId} mayWrite />
    </>
  );
}

const hint = 'At most 64 MB. Choose the file, or drop it on the field.';

function ChooseArchive({ ownerId, onPlanned }: { ownerId: string; onPlanned: (planned: Planned) => void }) {
  const projects = useProjects(ownerId).data ?? [];
  const [projectId, setProjectId] = useState('');
  const upload = useRef<AbortController>(undefined);
  const field = useRef<HTMLInputElement>(null);
  const check = useMutation({
    mutationFn: async (file: File): Promise<Planned | undefined> => {
      const { signal } = renewed(upload);
      try {
        const archive = await readArchiveFile(file);
        const plan = await sendImport(ownerId, { archive, projectId }, { dry_run: true }, signal);
        return { archive, projectId, plan };
      } catch (error) {
        if (signal.aborted) return undefined;
        throw error;
      }
    },
    // It holds the archive.
    gcTime: 0,
    onSuccess: (planned) => planned !== undefined && onPlanned(planned),
    // The same file may be chosen again, once it was changed.
    onSettled: () => {
      if (field.current !== null) field.current.value = '';
    },
  });
  const file = check.variables;
  return (
    <section className="card form" aria-labelledby="archive">
      <h2 id="archive">Choose the archive</h2>
      <p className="muted">
        A ZIP of a Git repository that a project is synced with (on GitHub: Code, then Download ZIP), or a
        project export; or a bundle of <code>millrace import --save</code>. The file goes to this service and
        nowhere else.
      </p>
      {projects.length > 0 && (
        <Field id="import-project" name="Project">
          <select
            id="import-project"
            className="select"
            value={projectId}
            disabled={check.isPending}
            onChange={(event) => setProjectId(event.target.value)}
          >
            <option value="">No project</option>
            {projects.map(({ id, name }) => (
              <option key={id} value={id}>
                {visible(shortened(name, 80))}
              </option>
            ))}
          </select>
        </Field>
      )}
      <Field id="import-archive" name="ZIP archive or bundle" hint={hint}>
        <input
          {...fieldAttributes({ id: 'import-archive', hint })}
          ref={field}
          type="file"
          accept=".zip,.json,application/zip,application/json"
          className="input drop"
          disabled={check.isPending}
          onChange={(event) => {
            const chosen = event.target.files?.[0];
            if (chosen !== undefined) check.mutate(chosen);
          }}
        />
      </Field>
      {check.isPending && file !== undefined && (
        <div className="tools">
          <Checking file={file} since={check.submittedAt} />
          <button type="button" className="button small" onClick={() => upload.current?.abort()}>
            Cancel
          </button>
        </div>
      )}
      {check.error !== null && <Problem error={check.error} what="The archive was not accepted." />}
      <ReadMore page="guides/moving-in">What is imported, and what differs</ReadMore>
    </section>
  );
}

function renewed(upload: { current: AbortController | undefined }): AbortController {
  const fresh = new AbortController();
  upload.current = fresh;
  return fresh;
}

function Checking({ file, since }: { file: File; since: number }) {
  const seconds = Math.max(0, Math.round((useNow(1_000) - since) / 1000));
  return (
    <Loading
      what={`Uploading and checking ${visible(shortened(file.name, 100))} (${formatBytes(file.size)}), ${seconds} s so far`}
    />
  );
}

function Plan({
  ownerId,
  planned: { archive, projectId, plan },
  onPlan,
  onLeave,
}: {
  ownerId: string;
  planned: Planned;
  onPlan: (plan: Import) => void;
  onLeave: () => void;
}) {
  const [, navigate] = useLocation();
  const queries = useQueryClient();
  const [activate, setActivate] = useState(false);
  const [accounts, setAccounts] = useState<ChosenAccounts>({});
  // What was answered is not asked again when the archive is checked again.
  const [questions] = useState(() => questionsOf(plan.report));
  const recheck = useMutation({
    mutationFn: () => sendImport(ownerId, { archive, projectId }, { accounts, dry_run: true }),
    gcTime: 0,
    onSuccess: onPlan,
  });
  const { report } = plan;
  const count = report.counts.workflows + report.objects.length;
  const start = useMutation({
    mutationFn: () => sendImport(ownerId, { archive, projectId }, { accounts, activate }),
    gcTime: 0,
    onSuccess: (started) => {
      queries.setQueryData(['import', started.id], started);
      void queries.invalidateQueries({ queryKey: ['imports'] });
      navigate(`/imports/${started.id}`);
    },
  });
  return (
    <>
      <section className="card" aria-labelledby="plan">
        <h2 id="plan">What would be imported</h2>
        <p className="muted break">
          From <bdi>{visible(shortened(archive.name, 200))}</bdi> ({formatBytes(archive.content.size)}).
          Nothing was written.
        </p>
        <ImportCounts report={report} isPlan />
        <button type="button" className="button" disabled={start.isPending} onClick={onLeave}>
          Choose another archive
        </button>
      </section>
      {questions.length > 0 && (
        <ImportQuestions
          questions={questions}
          scope={{ ownerId, projectId }}
          accounts={accounts}
          onAccounts={setAccounts}
          use={{
            ...{ mutate: () => recheck.mutate(), isPending: recheck.isPending, error: recheck.error },
            ...{ name: 'Check again with these answers', busyName: 'Checking …' },
            failure: 'The archive was not checked again.',
          }}
        />
      )}
      <section className="card" aria-labelledby="import">
        <h2 id="import">Import</h2>
        <form
          onSubmit={(event) => {
            event.preventDefault();
            start.mutate();
          }}
        >
          <label className="check">
            <input
              type="checkbox"
              checked={activate}
              onChange={(event) => setActivate(event.target.checked)}
            />
            Activate workflows and sources that were active there and need nothing by hand
          </label>
          {start.error !== null && <Problem error={start.error} what="The import was not started." />}
          <div className="tools below">
            <button type="submit" className="button primary" disabled={start.isPending || count === 0}>
              {start.isPending ? 'Starting …' : `Import ${nameOfAll(count, report.objects.length > 0)}`}
            </button>
          </div>
        </form>
      </section>
      <ImportedWorkflows report={report} isPlan />
      <ImportedObjects report={report} isPlan />
      <NeededForAll report={report} />
    </>
  );
}

/** A bundle also has sources, webhooks and subscriptions. */
function nameOfAll(count: number, isBundle: boolean): string {
  const what = isBundle ? 'object' : 'workflow';
  return count === 1 ? `1 ${what}` : `${formatNumber(count)} ${what}s`;
}

function EarlierImports({ ownerId, mayWrite }: { ownerId: string; mayWrite: boolean }) {
  const imports = useImports(ownerId);
  const list = imports.data ?? [];
  return (
    <>
      {imports.error !== null && <Problem error={imports.error} onRetry={() => void imports.refetch()} />}
      {imports.isPending && <Loading />}
      {imports.data !== undefined &&
        list.length === 0 &&
        (mayWrite ? (
          <p className="muted">Nothing was imported yet. Imports appear here with their reports.</p>
        ) : (
          <Empty title="No imports yet">
            <p>Imports of this workspace appear here with their reports.</p>
          </Empty>
        ))}
      {list.length > 0 && (
        <section aria-labelledby="earlier">
          <h2 id="earlier">Earlier imports</h2>
          <ul className="rows card flush below" aria-labelledby="earlier">
            {list.map((one) => (
              <li key={one.id}>
                <ImportRow one={one} />
              </li>
            ))}
          </ul>
        </section>
      )}
    </>
  );
}

function ImportRow({ one: { id, state, format, progress, created_at } }: { one: ImportSummary }) {
  return (
    <Link href={`/imports/${id}`} className="row">
      <ImportState state={state} />
      <span className="row-main">
        <span className="cut row-name">{nameOfAll(progress.total, format === 'bundle')}</span>
        <code className="muted cut">{id}</code>
      </span>
      <span className="muted row-side">
        <Ago ms={Date.parse(created_at)} />
      </span>
    </Link>
  );
}
