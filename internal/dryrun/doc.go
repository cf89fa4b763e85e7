// Package dryrun turns every write of a Kubernetes client into a dry run, and remembers what the writes would have
// changed. It works on the HTTP requests to the API server, and knows nothing of tasks and releases.
package dryrun
