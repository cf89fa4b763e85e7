// Package report reports the runs of hooks and the waits for Helm hooks to an observer, such as the
// metrics. It logs the lines that hooks print, and finds runs that take much longer than any run
// before.
package report
