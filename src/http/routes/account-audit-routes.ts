import type { FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { auditOfAccount, viewAudit } from '#accounts/account-audit.ts';
import { selectAudit } from '#accounts/account-audit-store.ts';
import { requireAccount } from '#accounts/account-rights.ts';
import { viewUses } from '#accounts/account-uses.ts';
import { encodeCursor, pageRequest, pageResponse } from '#http/pagination.ts';
import { type App, callerOf, DataOf, IdParams, PageOf, pageParameters } from '#http/route-support.ts';
import { selectFields } from '#http/select-fields.ts';
import { ownersOf, requireWorkspace } from '#identity/permissions.ts';
import { registryOwner } from '#registry/resolve-component.ts';
import type { Page } from '#storage/page.ts';
import type { Store } from '#storage/store.ts';
import type { AccountAuditTable } from '#storage/tables/account-tables.ts';
import { AccountUses, AuditAction, AuditEntry } from './account-shapes.ts';

export interface AccountAuditRouteOptions {
  store: Store;
}

const auditParameters = {
  ...pageParameters,
  action: Type.Optional(AuditAction),
};

/** Additions: what uses accounts, and who did what with them. */
export function accountAuditRoutes(app: App, { store }: AccountAuditRouteOptions): void {
  app.get(
    '/accounts/:id/uses',
    {
      schema: {
        operationId: 'listAccountUses',
        tags: ['accounts', 'addition'],
        summary:
          'Sources and workflows that use an account; when they, and actions run by API, were given its credentials',
        params: IdParams('apn_…'),
        response: { 200: DataOf(AccountUses) },
      },
    },
    async (request) => {
      const { id } = request.params;
      const caller = callerOf(request);
      await requireAccount(store.read, caller, id, 'see');
      const owners = await ownersOf(store.read, caller);
      // The names of registry components are public.
      const known = [...owners.ids, registryOwner];
      return { data: selectFields(request, await viewUses(store.read, id, known)) };
    },
  );

  app.get(
    '/accounts/:id/audit',
    {
      schema: {
        operationId: 'listAccountAudit',
        tags: ['accounts', 'addition'],
        summary: 'The audit log of an account, newest first',
        description:
          'For who created it, while they are a member of its workspace, and for admins; after it was deleted, for admins. ' +
          'Kept for MILLRACE_AUDIT_DAYS.',
        params: IdParams('apn_…'),
        querystring: Type.Object(auditParameters),
        response: { 200: PageOf(AuditEntry) },
      },
    },
    async (request) => {
      const { action } = request.query;
      const filter = { accountId: request.params.id, ...(action === undefined ? {} : { action }) };
      const page = await auditOfAccount(store.read, callerOf(request), filter, pageRequest(request));
      return auditPage(request, page);
    },
  );

  app.get(
    '/workspaces/:id/audit',
    {
      schema: {
        operationId: 'listWorkspaceAudit',
        tags: ['accounts', 'addition'],
        summary: 'The audit log of the accounts of a workspace, newest first; only for its admins',
        description: 'Also with accounts that were deleted. Kept for MILLRACE_AUDIT_DAYS.',
        params: IdParams('o_…'),
        querystring: Type.Object({
          ...auditParameters,
          user_id: Type.Optional(Type.String({ description: 'Only what this user did' })),
        }),
        response: { 200: PageOf(AuditEntry) },
      },
    },
    async (request) => {
      const { id } = request.params;
      const { action, user_id: userId } = request.query;
      await requireWorkspace(store.read, callerOf(request), id, 'administer');
      const filter = {
        ownerId: id,
        ...(action === undefined ? {} : { action }),
        ...(userId === undefined ? {} : { userId }),
      };
      return auditPage(request, await selectAudit(store.read, filter, pageRequest(request)));
    },
  );
}

function auditPage(request: FastifyRequest, { rows, totalCount }: Page<AccountAuditTable>) {
  const cursors = rows.map((row) => encodeCursor(row.id));
  return pageResponse(selectFields(request, rows.map(viewAudit)), {
    totalCount,
    cursorOf: (_entry, index) => cursors[index] ?? '',
  });
}
