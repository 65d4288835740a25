import { EditWorkflowPage } from './edit-workflow.tsx';
import { NewWorkflowPage } from './new-workflow.tsx';

/** Making and changing workflows, loaded together when one of them is opened. Without an id: a new one. */
export default function Editing({ id }: { id?: string }) {
  return id === undefined ? <NewWorkflowPage /> : <EditWorkflowPage id={id} />;
}
