import { Link } from 'wouter';
import { Empty, PageFrame } from '~/parts/page.tsx';

export function NotFound() {
  return (
    <PageFrame title="No such page">
      <Empty title="There is nothing at this address">
        <p>
          Go on at <Link href="/">Home</Link>.
        </p>
      </Empty>
    </PageFrame>
  );
}
