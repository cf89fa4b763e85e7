// Package review answers the review requests of the API server with the hooks that it asks.
package review
