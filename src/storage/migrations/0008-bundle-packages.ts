/** Never edited once released: a change is a new migration. */
export const bundlePackagesMigration = {
  name: '0008-bundle-packages',
  statements: [`alter table bundles add column packages text`],
};
