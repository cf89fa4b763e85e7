// Package webhook serves admission and conversion webhooks. Hooks answer the reviews of the API server: they accept, reject
// or change a request, or convert an object to another version.
//
// Its terms:
//
//   - An admission and a conversion are bindings of hooks. A table has all bindings that are served.
//   - A [ReviewRequest] is a call of one hook. An answer is the response of that hook.
//   - A chain is the shortest sequence of conversions from one version to another.
//   - A server answers the reviews of the API server. It calls the hooks in its table. A conversion can need several calls.
//   - A pair is a serving certificate and its CA. A rotator has the pair in use, the next pair, and the bundle of trusted
//     CAs. It uses no certificate before the API server knows its CA.
//   - Pairs are read from files, or issued by an authority, which stores its CA in a Secret and renews it in time.
//   - A registrar writes the bindings of the table to webhook configurations and CustomResourceDefinitions of the cluster.
package webhook
