// Package sections reads and changes the values of modules in the store: the content of the ConfigMap that is in
// force, and the values patches and enabled overrides of hooks. Each module, and "global", has one section of values.
// A patch is saved only if the schemas accept the resulting values.
package sections
