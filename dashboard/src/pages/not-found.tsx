import { Link } from 'wouter';
import { Empty, PageFrame } from '~/parts/page.tsx';
import { ReadMore } from '~/parts/read-more.tsx';

export function NotFound() {
  return (
    <PageFrame title="No such page">
      <Empty title="There is no page at this URL">
        <p>
          Continue at <Link href="/">Home</Link>.
        </p>
        <ReadMore page="guides/dashboard">what is where</ReadMore>
      </Empty>
    </PageFrame>
  );
}
