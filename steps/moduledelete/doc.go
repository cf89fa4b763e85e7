// Package moduledelete deletes modules: it detaches the bindings of a disabled module, and deletes the state of the
// module after its release is deleted. It also purges releases that have no module.
package moduledelete
