// Package review answers the review requests of the API server. For each request it runs the hooks
// with a webhook binding for it. A review is not a task: it is answered at once or fails.
package review
