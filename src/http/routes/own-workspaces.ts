import { type Static, Type } from 'typebox';
import { listWorkspacesOf } from '#identity/workspace-store.ts';
import type { Clock } from '#lib/clock.ts';
import type { QuotaGuard } from '#metering/quota-guard.ts';
import { ownerQuotasOf } from '#metering/quota-store.ts';
import { effectiveQuotas } from '#metering/quotas.ts';
import { usageTodayOf } from '#metering/usage-store.ts';
import type { Store } from '#storage/store.ts';

export const DailyUse = {
  daily_compute_time_quota: Type.Integer({ description: 'Milliseconds' }),
  daily_compute_time_used: Type.Integer({ description: 'Milliseconds' }),
  daily_invocations_quota: Type.Integer(),
  daily_invocations_used: Type.Integer(),
};
const DailyUseShape = Type.Object(DailyUse);

/** A workspace in the list of one of its members. */
export const OwnWorkspace = Type.Object({
  id: Type.String({ description: 'o_…' }),
  orgname: Type.String(),
  name: Type.String(),
  email: Type.String(),
  daily_credits_quota: Type.Integer(),
  daily_credits_used: Type.Integer(),
  ...DailyUse,
});

/** The workspaces of a user, oldest first, and what the user personally and each of them may use and used today. */
export async function ownWorkspaces(
  {
    store,
    clock,
    quotas,
  }: { store: Pick<Store, 'read'>; clock: Clock; quotas: Pick<QuotaGuard, 'defaults'> },
  userId: string,
): Promise<{ personal: Static<typeof DailyUseShape>; workspaces: Static<typeof OwnWorkspace>[] }> {
  const workspaces = await listWorkspacesOf(store.read, userId);
  const ownerIds = [userId, ...workspaces.map(({ id }) => id)];
  const [usage, own] = await Promise.all([
    usageTodayOf(store.read, ownerIds, clock.now()),
    ownerQuotasOf(store.read, ownerIds),
  ]);
  const quotasOf = (ownerId: string) => effectiveQuotas(quotas.defaults, own.get(ownerId));
  const dailyUse = (ownerId: string) => ({
    daily_compute_time_quota: quotasOf(ownerId).computeMs,
    daily_compute_time_used: usage.get(ownerId)?.computeMs ?? 0,
    daily_invocations_quota: quotasOf(ownerId).invocations,
    daily_invocations_used: usage.get(ownerId)?.invocations ?? 0,
  });
  return {
    personal: dailyUse(userId),
    workspaces: workspaces.map(({ id, orgname, name, email }) => ({
      ...{ id, orgname, name, email },
      daily_credits_quota: quotasOf(id).credits,
      daily_credits_used: usage.get(id)?.credits ?? 0,
      ...dailyUse(id),
    })),
  };
}
