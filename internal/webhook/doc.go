// Package webhook serves admission and conversion webhooks. Hooks answer the reviews of the API
// server: they allow, deny or change a request, or convert objects to another version.
//
// Its terms:
//
//   - Admissions and conversions are bindings of hooks. A table contains all bindings for which the server accepts
//     reviews.
//   - A [ReviewRequest] is the request to one hook. An [Answer] is the response of the hook.
//   - A chain is a sequence of conversion steps from one version to another.
//   - A server answers the reviews of the API server. For each review, it calls the hook of a
//     binding in the table. For a conversion, it may call several hooks.
//   - A pair is a serving certificate and its CA. A rotator has the pair in use, the next pair, and the bundle of CAs
//     to trust. It uses the certificate of the next pair as soon as the API server knows the CA of this certificate.
//   - Pairs are read from files or created by an issuer. The issuer stores its CA in a Secret, and
//     replaces the CA after half of its lifetime.
//   - A registrar writes the bindings of the table to the webhook configurations and CustomResourceDefinitions in the
//     cluster.
package webhook
