// Package dryrun makes every write of a client a dry run. It changes the HTTP requests to the API
// server, and knows nothing of tasks and releases.
package dryrun
