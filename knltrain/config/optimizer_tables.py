"""The tables [optimizer] and [learning_rate]: how steps are made of gradients, and how large."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from knltrain.config.tables import Count, Finite, Fraction, Name, NotNegative, Positive, Table

# The keys that each learning-rate policy reads besides `base`.
POLICY_KEYS: dict[str, frozenset[str]] = {
    "fixed": frozenset(),
    "step": frozenset({"gamma", "step_size"}),
    "multistep": frozenset({"gamma", "step_values"}),
    "piecewise": frozenset({"step_values", "step_rates"}),
    "exp": frozenset({"gamma"}),
    "inv": frozenset({"gamma", "power"}),
    "poly": frozenset({"power"}),
    "sigmoid": frozenset({"gamma", "step_size"}),
    "cosine": frozenset(),
}

_NO_DECAY: dict[str, float | bool | str] = {"weight_decay": 0.0, "regularisation": "l2"}
# The keys that each optimizer reads besides gradient clipping, and their defaults.
OPTIMIZER_DEFAULTS: dict[str, dict[str, float | bool | str]] = {
    "sgd": {"momentum": 0.9, **_NO_DECAY, "nesterov": False},
    "lars": {"momentum": 0.9, "weight_decay": 0.0, "trust_coefficient": 0.001},
    "adamw": {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, "weight_decay": 0.0},
    "adam": {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, **_NO_DECAY},
    "adagrad": {"epsilon": 1e-8, **_NO_DECAY},
    "rmsprop": {"rho": 0.99, "epsilon": 1e-8, **_NO_DECAY},
    "adadelta": {"rho": 0.95, "epsilon": 1e-6, **_NO_DECAY},
}


class OptimizerConfig(Table):
    """[optimizer]: what a worker does with its gradient; keys of other optimizers are None."""

    name: Name = Field(
        default="sgd",
        description="'sgd', 'lars', 'adamw', 'adam', 'adagrad', 'rmsprop' or 'adadelta', for every "
        "worker",
    )
    momentum: Fraction | None = Field(
        default=None,
        description="share of the velocity kept from step to step (μ); left out: 0.9",
    )
    weight_decay: NotNegative | None = Field(
        default=None, description="pull of the parameters towards 0 (λ); left out: none"
    )
    regularisation: Literal["l2", "l1"] | None = Field(
        default=None,
        description="what the weight decay adds to the gradient: 'l2', λ w; 'l1', λ sign(w); left "
        "out: 'l2'; 'lars' and 'adamw' have a rule of their own",
    )
    nesterov: bool | None = Field(
        default=None, description="Nesterov's form of the momentum of 'sgd'"
    )
    trust_coefficient: Positive | None = Field(
        default=None,
        description="step of a layer's weights over their norm at learning rate 1, with 'lars'; "
        "left out: 0.001",
    )
    beta1: Fraction | None = Field(
        default=None,
        description="share of the first moment that 'adam' and 'adamw' keep (β1); left out: 0.9",
    )
    beta2: Fraction | None = Field(
        default=None,
        description="share of the second moment that 'adam' and 'adamw' keep (β2); left out: 0.999",
    )
    rho: Fraction | None = Field(
        default=None,
        description="share of the mean square that 'rmsprop' and 'adadelta' keep (ρ); left out: "
        "0.99 and 0.95",
    )
    epsilon: Positive | None = Field(
        default=None,
        description="what keeps the divisor of a step above 0 (ε): added to a root of squares, "
        "by 'adadelta' within the root; left out: 1e-6 for 'adadelta', else 1e-8",
    )
    clip_norm: Positive | None = Field(
        default=None,
        description="largest 2-norm of the whole gradient, which is scaled down to it; with "
        "train.iter_size that of the sum",
    )
    clip_value: Positive | None = Field(
        default=None,
        description="largest magnitude of each value of the gradient, applied first; with "
        "train.iter_size that of the sum",
    )

    @model_validator(mode="before")
    @classmethod
    def _defaults_of_its_name(cls, given: Any) -> Any:
        name = given.get("name", "sgd") if isinstance(given, dict) else None
        defaults = OPTIMIZER_DEFAULTS.get(name, {}) if isinstance(name, str) else {}
        missing = {key: value for key, value in defaults.items() if given.get(key) is None}
        return {**given, **missing} if missing else given

    @model_validator(mode="after")
    def _reads_its_keys(self) -> OptimizerConfig:
        known = OPTIMIZER_DEFAULTS.get(self.name)
        if known is None:
            return self  # An unknown name is refused later, where its object is made.
        every = dict.fromkeys(key for keys in OPTIMIZER_DEFAULTS.values() for key in keys)
        given = [key for key in every if getattr(self, key) is not None]
        if surplus := [key for key in given if key not in known]:
            raise ValueError(
                f"optimizer '{self.name}' does not read {' and '.join(surplus)}: leave out all "
                f"but {', '.join(known)}, clip_norm and clip_value"
            )
        return self


class LearningRateConfig(Table):
    """[learning_rate]: η as a function of the step; Caffe's names and formulas."""

    base: Positive = Field(description="learning rate that the policy starts from")
    policy: Literal[
        "fixed", "step", "multistep", "piecewise", "exp", "inv", "poly", "sigmoid", "cosine"
    ] = Field(default="fixed", description="how the rate changes")
    gamma: Finite | None = Field(
        default=None,
        description="factor or slope of the policy (γ); 'sigmoid' falls below 0, rises above",
    )
    power: Positive | None = Field(default=None, description="exponent of 'inv' and 'poly'")
    step_size: Count | None = Field(
        default=None, description="steps between drops, centre of 'sigmoid'"
    )
    step_values: Annotated[tuple[Count, ...], Field(strict=False)] | None = Field(
        default=None,
        description="rising steps at which 'multistep' drops, or 'piecewise' takes another rate",
    )
    step_rates: Annotated[tuple[NotNegative, ...], Field(strict=False)] | None = Field(
        default=None, description="rates of 'piecewise', each from its one of step_values on"
    )
    warmup_steps: Annotated[int, Field(ge=0)] = Field(
        default=0, description="steps over which the rate rises linearly to the warm-up's target"
    )
    warmup_target: Literal["policy", "base"] = Field(
        default="policy",
        description="what the warm-up aims at: the policy's rate at the step, or base, as Intel's "
        "Caffe does",
    )
    warmup_start: NotNegative = Field(default=0.0, description="rate that the warm-up starts from")

    @model_validator(mode="after")
    def _policy_has_its_keys(self) -> LearningRateConfig:
        policy_keys = frozenset[str]().union(*POLICY_KEYS.values())
        given = {key for key in policy_keys if getattr(self, key) is not None}
        needed = POLICY_KEYS[self.policy]
        if missing := sorted(needed - given):
            raise ValueError(f"policy '{self.policy}' needs {' and '.join(missing)}")
        if surplus := sorted(given - needed):
            raise ValueError(f"policy '{self.policy}' does not read {' and '.join(surplus)}")
        self._check_gamma()
        values = self.step_values or ()
        if any(later <= earlier for earlier, later in pairwise(values)):
            raise ValueError(f"step_values must rise, got {list(values)}")
        if self.step_rates is not None and len(self.step_rates) != len(values):
            raise ValueError(
                f"{len(self.step_rates)} step_rates for {len(values)} step_values: expected one "
                "for each; before the first the rate is base"
            )
        return self

    def _check_gamma(self) -> None:
        if self.gamma is None or self.gamma > 0 or (self.policy == "sigmoid" and self.gamma < 0):
            return
        wanted = "another number than 0" if self.policy == "sigmoid" else "a number above 0"
        raise ValueError(f"gamma = {self.gamma} with policy '{self.policy}': expected {wanted}")
