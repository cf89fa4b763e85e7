// Package sdk implements hooks in Go: executables that follow the file contract of hooks.
//
// A [Hook] has a [Config] and a function. The function gets a [Run], which has the inputs of one
// execution and the collectors of its outputs. An [Element] of the binding context is one reason for the
// run, an [Item] is an object in it. [Values] can be read and patched. [Objects] and [Metrics] collect
// operations on objects and metrics.
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
// The collected outputs are written when the function returns without an error; otherwise they are
// dropped. The package depends only on the standard library. Package sdktest runs such hooks, and
// scripts, in tests with given objects and values.
package sdk
