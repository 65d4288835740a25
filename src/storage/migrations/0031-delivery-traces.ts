/** A delivery is part of the trace in which its event was emitted. Never edited once released: a change is a new migration. */
export const deliveryTracesMigration = {
  name: '0031-delivery-traces',
  statements: [`alter table deliveries add column trace text`],
};
