// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package security

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	celgo "github.com/google/cel-go/cel"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	apiservercel "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/cel/environment"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/test/render"
)

// What the chart is rendered with: its image of the agent is agentImage.
const (
	agentRegistry = "image.registry=registry.example/team"
	agentImage    = "registry.example/team/lighterage/agent:v0.1.0"

	managerAccount = "system:serviceaccount:lighterage-system:lighterage-manager"
	gatewayAccount = "system:serviceaccount:lighterage-system:lighterage-gateway"
)

// request is what somebody asks of an API server.
type request struct {
	user      string
	operation admission.Operation
	resource  schema.GroupVersionResource // with the subresource, as in "deliveries/status"
	object    client.Object
	old       client.Object
	namespace *corev1.Namespace
}

// expression is of a policy.
type expression struct {
	name, text string
	types      []*celgo.Type
}

func (e expression) GetExpression() string      { return e.text }
func (e expression) GetName() string            { return e.name }
func (e expression) ReturnTypes() []*celgo.Type { return e.types }
func boolean(text string) cel.ExpressionAccessor {
	return expression{text: text, types: []*celgo.Type{celgo.BoolType}}
}
func variable(v admissionregistrationv1.Variable) expression {
	return expression{name: v.Name, text: v.Expression, types: []*celgo.Type{celgo.AnyType, celgo.DynType}}
}

// policies are those of the chart, by name.
func policies(t *testing.T) map[string]*admissionregistrationv1.ValidatingAdmissionPolicy {
	t.Helper()
	objects, err := render.Chart(agentRegistry, "crds.install=false")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]*admissionregistrationv1.ValidatingAdmissionPolicy{}
	bound := map[string]bool{}
	for i := range objects {
		switch objects[i].GetKind() {
		case "ValidatingAdmissionPolicy":
			policy := &admissionregistrationv1.ValidatingAdmissionPolicy{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(objects[i].Object, policy); err != nil {
				t.Fatal(err)
			}
			found[policy.Name] = policy
		case "ValidatingAdmissionPolicyBinding":
			name, _, _ := unstructured.NestedString(objects[i].Object, "spec", "policyName")
			bound[name] = true
		}
	}
	for name := range found {
		if !bound[name] {
			t.Errorf("policy %s has no binding", name)
		}
	}
	return found
}

// judge is what the policies of the chart that match say of a request: the messages of the rules that it breaks. It
// compiles and runs their CEL as an API server does; that one enforces them is for the tests with the build tag
// envtest.
func judge(t *testing.T, r request) []string {
	t.Helper()
	var messages []string
	for _, policy := range policies(t) {
		// Parameters are found by the API server.
		if policy.Spec.ParamKind == nil && matches(policy, r) {
			messages = append(messages, evaluate(t, policy, r)...)
		}
	}
	return messages
}

func matches(policy *admissionregistrationv1.ValidatingAdmissionPolicy, r request) bool {
	return slices.ContainsFunc(policy.Spec.MatchConstraints.ResourceRules,
		func(rule admissionregistrationv1.NamedRuleWithOperations) bool {
			return slices.Contains(rule.APIGroups, r.resource.Group) && slices.Contains(rule.Resources, r.resource.Resource) &&
				slices.Contains(rule.Operations, admissionregistrationv1.OperationType(r.operation))
		})
}

// compiled are the expressions of a policy, which take longer to compile than to run.
type compiled struct{ conditions, rules, messages cel.ConditionEvaluator }

// compilations are by the policy's name.
var compilations sync.Map

func compile(t *testing.T, policy *admissionregistrationv1.ValidatingAdmissionPolicy) compiled {
	t.Helper()
	if known, ok := compilations.Load(policy.Name); ok {
		return known.(compiled)
	}
	compiler, err := cel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		t.Fatal(err)
	}
	declared := cel.OptionalVariableDeclarations{HasAuthorizer: true}
	for _, v := range policy.Spec.Variables {
		if result := compiler.CompileAndStoreVariable(
			variable(v), declared, environment.StoredExpressions,
		); result.Error != nil {
			t.Fatalf("%s: variable %s: %v", policy.Name, v.Name, result.Error)
		}
	}
	evaluator := func(expressions []cel.ExpressionAccessor) cel.ConditionEvaluator {
		made := compiler.CompileCondition(expressions, declared, environment.StoredExpressions)
		if errs := made.CompilationErrors(); len(errs) > 0 {
			t.Fatalf("%s: %v", policy.Name, errs)
		}
		return made
	}
	var conditions, rules, texts []cel.ExpressionAccessor
	for _, condition := range policy.Spec.MatchConditions {
		conditions = append(conditions, boolean(condition.Expression))
	}
	for _, validation := range policy.Spec.Validations {
		rules = append(rules, boolean(validation.Expression))
		text := validation.MessageExpression
		if text == "" {
			text = fmt.Sprintf("%q", validation.Message)
		}
		texts = append(texts, expression{text: text, types: []*celgo.Type{celgo.StringType}})
	}
	made := compiled{evaluator(conditions), evaluator(rules), evaluator(texts)}
	compilations.Store(policy.Name, made)
	return made
}

func evaluate(t *testing.T, policy *admissionregistrationv1.ValidatingAdmissionPolicy, r request) []string {
	t.Helper()
	program := compile(t, policy)
	if slices.Contains(run(t, program.conditions, r), any(false)) {
		return nil
	}
	var messages []string
	said := run(t, program.messages, r)
	for i, result := range run(t, program.rules, r) {
		if result != true {
			messages = append(messages, fmt.Sprint(said[i]))
		}
	}
	return messages
}

// administrator may do all.
const administrator = "administrator"

// rights are those of RBAC, as far as policies ask for them.
var rights = authorizer.AuthorizerFunc(
	func(_ context.Context, asked authorizer.Attributes) (authorizer.Decision, string, error) {
		if asked.GetUser().GetName() == administrator || asked.GetNamespace() != "" {
			return authorizer.DecisionAllow, "", nil
		}
		return authorizer.DecisionNoOpinion, "", nil
	},
)

// run evaluates expressions; an error fails the test, because an API server would refuse the request with it and no
// fix.
func run(t *testing.T, evaluator cel.ConditionEvaluator, r request) []any {
	t.Helper()
	kind := schema.GroupVersionKind{Group: r.resource.Group, Version: r.resource.Version, Kind: r.resource.Resource}
	var object, old runtime.Object
	named := r.object
	if r.object != nil {
		object = unstructuredOf(t, r.object)
	}
	if r.old != nil {
		old, named = unstructuredOf(t, r.old), r.old
	}
	whole := r.resource
	var part string
	whole.Resource, part, _ = strings.Cut(r.resource.Resource, "/")
	attributes := admission.NewAttributesRecord(object, old, kind, named.GetNamespace(), named.GetName(), whole, part,
		r.operation, nil, false,
		&user.DefaultInfo{Name: r.user})
	versioned := &admission.VersionedAttributes{Attributes: attributes, VersionedKind: kind}
	versioned.VersionedObject.Set(object)
	versioned.VersionedOldObject.Set(old)
	asked := cel.CreateAdmissionRequest(attributes, metav1.GroupVersionResource(whole), metav1.GroupVersionKind(kind))
	results, _, err := evaluator.ForInput(
		context.Background(), versioned, asked, cel.OptionalVariableBindings{Authorizer: rights}, r.namespace,
		apiservercel.RuntimeCELCostBudget,
	)
	if err != nil {
		t.Fatal(err)
	}
	values := make([]any, len(results))
	for i, result := range results {
		if result.Error != nil {
			t.Fatalf("%s: %v", result.ExpressionAccessor.GetExpression(), result.Error)
		}
		values[i] = result.EvalResult.Value()
	}
	return values
}
