/** The node that undoes an import. Never edited once released. */
export const importUndosMigration = {
  name: '0037-import-undos',
  statements: [`alter table imports add column undo_node text`],
};
