// Package sections reads and changes what the store has of the values of modules: the content of the
// ConfigMap in force, and the values patches and enabled overrides of hooks. Each module, and "global",
// has one section of values. A patch is saved only if the schemas accept the values with it.
package sections
