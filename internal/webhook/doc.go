// Package webhook has the API server ask hooks: whether it may take a request, what is to be changed of it first, and what
// an object is in another version.
//
// Its nouns:
//
//   - An admission and a conversion are bindings of hooks, and a table is all of them that are served now.
//   - A question is what the API server asks, put to one hook; its answer is what the hook has written.
//   - A chain is the shortest row of conversions that leads from one version to another.
//   - A server answers the API server's reviews by asking the hooks of its table.
//   - A pair is a certificate to serve with and the CA it is trusted by. A keyring holds the pair in use, the one that comes
//     next, and the bundle of CAs to be trusted meanwhile: no certificate is used before its CA is known to the API server.
//   - Pairs come out of files, or from an authority that makes them, keeps its CA in a Secret, and replaces it in time.
//   - A registrar has the cluster's webhook configurations and CustomResourceDefinitions say what the table says.
package webhook
