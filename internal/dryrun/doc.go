// Package dryrun makes every write of a client a dry run. It knows no tasks and no releases: it works on the HTTP
// requests to the API server.
package dryrun
