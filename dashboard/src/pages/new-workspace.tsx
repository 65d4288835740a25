import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { useLocation } from 'wouter';
import { MillraceError, type Workspace } from '#sdk';
import { api } from '~/api/client.ts';
import type { Data } from '~/api/queries.ts';
import { useOwner } from '~/parts/owner.tsx';
import { PageFrame } from '~/parts/page.tsx';
import { visible } from '~/parts/plain-text.ts';
import { Problem } from '~/parts/problem.tsx';

/** A workspace, of which one is the first admin. */
export function NewWorkspacePage() {
  const { choose } = useOwner();
  const [, navigate] = useLocation();
  const queries = useQueryClient();
  const [name, setName] = useState('');
  const [orgname, setOrgname] = useState('');
  const create = useMutation({
    mutationFn: async () =>
      (
        await api<Data<Workspace>>('POST', '/v1/workspaces', {
          body: { name: name.trim(), ...(orgname.trim() === '' ? {} : { orgname: orgname.trim() }) },
        })
      ).data,
    onSuccess: async ({ id }) => {
      await queries.invalidateQueries({ queryKey: ['me'] });
      choose(id);
      navigate('/workspace');
    },
  });
  const isOrgname = create.error instanceof MillraceError && create.error.details.parameter === 'orgname';
  return (
    <PageFrame
      title="New workspace"
      lead={
        <p className="muted">
          A workspace has sources, workflows, webhooks and accounts of its own, which its members share. You
          are its first admin.
        </p>
      }
    >
      <form
        className="card form"
        onSubmit={(event) => {
          event.preventDefault();
          create.mutate();
        }}
      >
        <div className="field">
          <label className="label" htmlFor="workspace-name">
            Name
          </label>
          <input
            id="workspace-name"
            className="input"
            required
            maxLength={200}
            value={name}
            onChange={(event) => setName(event.target.value)}
          />
        </div>
        <div className="field">
          <label className="label" htmlFor="orgname">
            Short name <span className="muted">(optional)</span>
          </label>
          <p className="hint">Lower-case letters, digits and hyphens; made from the name otherwise.</p>
          <input
            id="orgname"
            className="input"
            maxLength={64}
            spellCheck={false}
            value={orgname}
            aria-invalid={isOrgname || undefined}
            aria-describedby={isOrgname ? 'orgname-problem' : undefined}
            onChange={(event) => setOrgname(event.target.value)}
          />
          {isOrgname && (
            <p id="orgname-problem" className="field-problem" role="alert">
              {visible(create.error?.message ?? '')}
            </p>
          )}
        </div>
        {create.error !== null && !isOrgname && (
          <Problem error={create.error} what="No workspace was made." />
        )}
        <button type="submit" className="button primary" disabled={create.isPending || name.trim() === ''}>
          {create.isPending ? 'Creating …' : 'Create workspace'}
        </button>
      </form>
    </PageFrame>
  );
}
