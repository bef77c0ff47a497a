"""Every error and warning that teacache raises on purpose. Imports nothing of the project.

A message says what was given, what was expected and what to do next.
"""


class TeaCacheError(Exception):
    """Base of every error that teacache raises on purpose."""


# What was asked for cannot be wrapped.


class UnknownModelError(TeaCacheError):
    """No installed or known adapter describes this object."""


class AdapterNotInstalledError(TeaCacheError):
    """A known adapter package would serve this model, but it is not installed."""


class UnsupportedPipelineError(TeaCacheError):
    """The family is known, but this pipeline of it cannot be cached."""


class AmbiguousAdapterError(TeaCacheError):
    """Two packages claim one adapter name or one model."""


class AlreadyWrappedError(TeaCacheError):
    """The model, or its transformer, is wrapped already."""


class ForeignWrapperError(TeaCacheError):
    """The transformer is not the class that the adapter describes: another tool has replaced it."""


class RestoreError(TeaCacheError):
    """`restore()` could not undo a change; calling it again retries what is left."""


# A plugin is at fault.


class PluginError(TeaCacheError):
    """A plugin failed to import, registers a wrong hook or returns something that is no adapter."""


class ContractVersionError(PluginError):
    """An adapter was written for another version of the adapter contract."""


class AdapterDescriptionError(PluginError):
    """An adapter describes something that the model does not have, or describes it wrongly."""


# An option has a wrong value.


class OptionError(TeaCacheError):
    """An option has a value that it cannot have."""


class ThresholdError(OptionError):
    """The threshold is not a finite number from 0 up."""


class CoefficientsError(OptionError):
    """The coefficients are not five finite numbers, highest power first."""


class PlanError(OptionError):
    """A plan, a number of computed steps or a speedup that the run cannot have."""


class CompileOptionError(OptionError):
    """`compile=` asks for something that this pipeline does not have."""


# Numbers with their evidence.


class CalibrationError(TeaCacheError):
    """A calibration file is damaged, incomplete, of a newer schema or holds impossible numbers."""


class KernelError(TeaCacheError):
    """A kernel is damaged: wrong sizes, numbers that are not finite, or not inner products."""


class FitError(TeaCacheError):
    """The recordings given are too few, too different or not finite: no fit was made."""


class ToleranceError(TeaCacheError):
    """A tolerance file is damaged, has a bound without evidence, or one that its evidence does not carry."""


class OracleError(TeaCacheError):
    """An oracle's verdict is "failed"; the message is its table."""


class VerificationError(TeaCacheError):
    """`wrap(verify=True)` found the traced path beyond the tolerance: nothing of it was used."""


# A run.


class RunError(TeaCacheError):
    """The steps of a run do not come as its host announced them."""


class ToyPromptError(TeaCacheError):
    """A prompt for a toy holds words that the toy has never seen."""


class WeightsError(TeaCacheError):
    """The weights of a model are not here and could not be fetched."""


class MissingDependencyError(TeaCacheError):
    """An optional package is needed for what was asked and is not installed."""


class TeaCacheWarning(UserWarning):
    """Base of every warning of teacache: the pictures still come."""


class NoCalibrationWarning(TeaCacheWarning):
    """There are no numbers for this checkpoint or this recipe: nothing is reused."""


class DistilledWarning(TeaCacheWarning):
    """The checkpoint is distilled to a few steps: there is nothing worth reusing."""


class NothingReusedWarning(TeaCacheWarning):
    """A finished run reused no step; the message says why."""


class RecordingWarning(NoCalibrationWarning):
    """There are no numbers yet: this picture is computed in full, while the model is recorded for the later ones."""


class SpeedupWarning(TeaCacheWarning):
    """The speed that was asked for cannot be had in this run; the one that is given is named."""


class SchedulerWarning(TeaCacheWarning):
    """The scheduler takes no carried velocity: every step is computed."""


class StoreWarning(TeaCacheWarning):
    """A recording could not be read or written; the picture is not affected."""


class BranchWarning(TeaCacheWarning):
    """The model was called in a way that the run did not expect: the call was computed plainly."""


class TransformerReplacedWarning(TeaCacheWarning):
    """The pipeline's transformer is no longer the wrapped one: the run is plain."""


class UntestedVersionWarning(TeaCacheWarning):
    """The host program's version lies beyond those that the adapter was tested with."""


class PluginWarning(TeaCacheWarning):
    """A plugin was set aside; everything else works."""
