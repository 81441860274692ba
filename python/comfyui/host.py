"""ComfyUI's own modules, which are imported when a node runs: they ask for a device when they are."""


def management():
    import comfy.model_management
    return comfy.model_management


def progress_bar(total):
    import comfy.utils
    return comfy.utils.ProgressBar(total)


def throw_if_cancelled():
    """Raises ComfyUI's InterruptProcessingException if the user has cancelled."""
    management().throw_exception_if_processing_interrupted()


def folders():
    import folder_paths
    return folder_paths
