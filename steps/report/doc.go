// Package report reports the runs of hooks, and waits for Helm hooks, to an observer, such as the metrics.
// It logs the lines that hooks print, and finds runs that take far longer than any before.
package report
