// Package report reports the runs of hooks to an observer, such as the metrics. It also reports runs that take much
// longer than all earlier runs of the hook, and long waits for Helm hooks. It logs the lines that hooks print.
package report
