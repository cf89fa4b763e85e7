// Package sdk makes hooks in Go: executables that speak the contract of files every hook speaks.
//
// Its nouns are the hook, a config and a function; the run, which is what the function is given, and takes what it
// answers; the elements of the binding context, each a reason for the run; items, the objects it tells of; values, read
// and patched; and the collectors of object operations and metrics.
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
// What a run collects is written when its function returned without an error; else nothing of it counts. The package
// depends on the standard library alone. Package sdktest runs such hooks, and scripts, on objects and values given.
package sdk
