// Package sdk is a library for hooks in Go. A hook is an executable that the operator calls. The hook reads its inputs
// from files and writes its outputs to files.
//
// A [Hook] has a [Config] and a function. The argument of the function is a [Run], which has the inputs of one
// execution and collects its outputs. An [Element] of the binding context is one reason for the run, and an [Item] is
// an object in an element. [Values] can be read and patched. [Objects] collects operations on objects, and [Metrics]
// collects changes of metrics.
//
//	func main() {
//		sdk.Main(sdk.Hook{
//			Config: sdk.Config{BeforeHelm: new(10)},
//			Run: func(ctx context.Context, r *sdk.Run) error {
//				r.Values.Set("web.internal.ready", true)
//				return nil
//			},
//		})
//	}
//
// If the function returns without an error, the collected outputs are written; otherwise they are dropped. The
// package depends only on the standard library. For tests, package sdktest runs hooks in Go or other languages with
// given objects and values.
package sdk
