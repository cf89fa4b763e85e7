// Package report tells an observer of the runs of hooks, and logs the lines that hooks print.
package report
