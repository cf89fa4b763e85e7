// Package report reports the runs of hooks and the waits for Helm hooks to an observer, such as the metrics. It logs
// the lines that hooks print. It also reports a run that takes much longer than all earlier runs of the hook.
package report
