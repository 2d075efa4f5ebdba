// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package agentpod

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// What an agent of a Transfer that asks for privilege gets, in a namespace that allows it, and nothing else: to read
// what it sends, whoever may, and to give what it writes its owner, mode and capabilities.
var (
	ReadCapabilities  = []corev1.Capability{"DAC_READ_SEARCH"}
	WriteCapabilities = []corev1.Capability{"CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "SETFCAP"}
)

// AllowsPrivilege reports whether agents in a namespace may have privilege that they ask for.
func AllowsPrivilege(namespace metav1.Object) bool {
	return namespace.GetAnnotations()[v1alpha1.AllowPrivilegedAnnotation] == "true"
}

// AsksPrivilege reports whether a template asks for an agent that runs as root. Linux gives added capabilities to root
// only, so asking for one means root.
func AsksPrivilege(template *v1alpha1.AgentPodTemplate) bool {
	if template == nil || template.SecurityContext == nil {
		return false
	}
	context := template.SecurityContext
	return len(added(context)) > 0 || context.RunAsUser != nil && *context.RunAsUser == 0
}

// AsksToWrite reports whether a template that asks for privilege means the receiving agent as well: it does not when
// the only capability that it names is one of reading.
func AsksToWrite(template *v1alpha1.AgentPodTemplate) bool {
	if !AsksPrivilege(template) {
		return false
	}
	names := added(template.SecurityContext)
	return len(names) == 0 || slices.ContainsFunc(names, func(c corev1.Capability) bool {
		return slices.Contains(WriteCapabilities, c)
	})
}

func added(context *corev1.SecurityContext) []corev1.Capability {
	if context.Capabilities == nil {
		return nil
	}
	return context.Capabilities.Add
}

// CheckPrivilege is the problem with a pod template that asks for more than the namespace allows; nil if there is none.
func CheckPrivilege(template *v1alpha1.AgentPodTemplate, namespace string, allowed bool) *Problem {
	if template == nil || template.SecurityContext == nil {
		return nil
	}
	if never, fix := excess(template.SecurityContext); never != "" {
		return &Problem{v1alpha1.ReasonPrivilegeNotAllowed, fmt.Sprintf(
			"spec.podTemplate.securityContext asks for %s, which no agent gets; %s", never, fix)}
	}
	asked := privilege(template.SecurityContext)
	if allowed || asked == "" {
		return nil
	}
	return &Problem{v1alpha1.ReasonPrivilegeNotAllowed, fmt.Sprintf(
		"spec.podTemplate.securityContext asks for %s, which namespace %q does not allow; annotate the namespace with %s: "+
			"\"true\", or leave it out",
		asked, namespace, v1alpha1.AllowPrivilegedAnnotation)}
}

// excess names what a security context asks for that has no use for an agent, whatever its namespace allows, and what
// to write in its place; empty if nothing.
func excess(context *corev1.SecurityContext) (asked, fix string) {
	const root = "write runAsUser: 0, which gives it the capabilities that it has a use for, or leave it out"
	isTrue := func(b *bool) bool { return b != nil && *b }
	switch {
	case isTrue(context.Privileged):
		return "privileged: true", root
	case isTrue(context.AllowPrivilegeEscalation):
		return "allowPrivilegeEscalation: true", root
	}
	for _, name := range added(context) {
		if !slices.Contains(ReadCapabilities, name) && !slices.Contains(WriteCapabilities, name) {
			return fmt.Sprintf("capability %s", name), root
		}
	}
	if user := ptr.Deref(context.RunAsUser, 0); user != 0 && len(added(context)) > 0 {
		return fmt.Sprintf(
			"a capability for user %d", user,
		), "capabilities have an effect for root only: write runAsUser: 0, or leave them out"
	}
	return "", ""
}

// privilege names the first thing in a security context that the restricted Pod Security Standard does not allow, or
// that makes the agent another user, who may read what the one who made the Transfer may not; empty if none.
func privilege(context *corev1.SecurityContext) string {
	switch {
	case context.RunAsUser != nil && *context.RunAsUser != User:
		return fmt.Sprintf("runAsUser: %d", *context.RunAsUser)
	case context.RunAsGroup != nil && *context.RunAsGroup != User:
		return fmt.Sprintf("runAsGroup: %d", *context.RunAsGroup)
	case context.RunAsNonRoot != nil && !*context.RunAsNonRoot:
		return "runAsNonRoot: false"
	case len(added(context)) > 0:
		return fmt.Sprintf("capability %s", context.Capabilities.Add[0])
	case context.SeccompProfile != nil && context.SeccompProfile.Type == corev1.SeccompProfileTypeUnconfined:
		return "seccompProfile Unconfined"
	case context.AppArmorProfile != nil && context.AppArmorProfile.Type == corev1.AppArmorProfileTypeUnconfined:
		return "appArmorProfile Unconfined"
	case context.ProcMount != nil && *context.ProcMount != corev1.DefaultProcMount:
		return fmt.Sprintf("procMount %s", *context.ProcMount)
	case context.SELinuxOptions != nil:
		return "seLinuxOptions"
	case context.WindowsOptions != nil:
		return "windowsOptions"
	}
	return ""
}

// Security is the restricted security context with what the user set over it. An agent with capabilities is root
// and has exactly these; any other has none.
func Security(given *corev1.SecurityContext, capabilities []corev1.Capability) *corev1.SecurityContext {
	context := &corev1.SecurityContext{}
	if given != nil {
		context = given.DeepCopy()
	}
	context.AllowPrivilegeEscalation = ptr.To(false)
	if context.ReadOnlyRootFilesystem == nil {
		context.ReadOnlyRootFilesystem = ptr.To(true)
	}
	if len(capabilities) > 0 {
		context.RunAsUser, context.RunAsNonRoot = ptr.To[int64](0), ptr.To(false)
	}
	context.Capabilities = &corev1.Capabilities{Add: capabilities, Drop: []corev1.Capability{"ALL"}}
	return context
}
