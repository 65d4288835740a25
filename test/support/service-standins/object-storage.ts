import { awsSignatures } from '../aws-signature.ts';
import type { CertificateAuthority } from '../certificates.ts';
import { ServiceStandIn } from './stand-in.ts';

/** S3 of AWS in one region: takes objects that are signed with the secret key. */
export function startObjectStorage(
  authority: CertificateAuthority,
  { region, secretKey, bucket }: { region: string; secretKey: string; bucket: string },
): Promise<ServiceStandIn> {
  return ServiceStandIn.start(authority, {
    host: `s3.${region}.amazonaws.com`,
    isAuthorized: (request) => {
      const { sent, expected, scope } = awsSignatures(request, secretKey);
      return sent === expected && scope.endsWith(`/${region}/s3/aws4_request`);
    },
    unauthorized: { status: 403, body: '<Error><Code>SignatureDoesNotMatch</Code></Error>' },
    routes: {},
    otherwise: (request) =>
      request.method === 'PUT' && request.url.startsWith(`/${bucket}/`)
        ? { status: 200 }
        : { status: 404, body: '<Error><Code>NoSuchBucket</Code></Error>' },
  });
}
