// Package review answers the review requests of the API server. For each request it runs one hook: the hook with the
// webhook binding that the request is for. A review is not a task of the engine: it is answered at once, or it fails.
package review
