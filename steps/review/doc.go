// Package review answers the review requests of the API server. For each request it runs one hook, the one with the
// webhook binding that the request names. A review is not a task: the request is answered at once or fails.
package review
