import { Link } from 'wouter';
import { Empty, PageFrame } from '~/parts/page.tsx';
import { ReadMore } from '~/parts/read-more.tsx';

export function NotFound() {
  return (
    <PageFrame title="No such page">
      <Empty title="There is nothing at this address">
        <p>
          Go on at <Link href="/">Home</Link>.
        </p>
        <ReadMore page="guides/dashboard">what is where</ReadMore>
      </Empty>
    </PageFrame>
  );
}
